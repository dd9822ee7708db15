"""Lists as run-time values, and the external functions on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]
List = tuple[Any, ...]


class GrowingList:
    """A list of a compiled program: only shape and dtype of its elements are known."""

    __slots__ = ()

    def __add__(self, items: List) -> Any:
        """Returns the list with more elements at its end."""
        raise TypeError

    def concatenate(self, axis: int, new: bool) -> Any:
        """Concatenates the elements along an axis, which is new or one of theirs."""
        raise TypeError


def _place(position: Array, length: int, last: int) -> int:
    """Returns an index counted from the front, at most `last`."""
    index = int(position.item())
    from_front = index + length if index < 0 else index
    if not 0 <= from_front <= last:
        raise ShapeMismatchError(f"list index {index} out of range for length {length}")
    return from_front


def empty() -> List:
    """Returns an empty list."""
    return ()


def at(items: List, position: Array) -> Any:
    """Returns one element."""
    return items[_place(position, len(items), len(items) - 1)]


def insert(items: List, item: Any, position: Any = ()) -> List:
    """Inserts an element before a position or at the end."""
    if isinstance(items, list):  # as users pass it
        items = tuple(items)
    if isinstance(position, tuple):
        return items + (item,)  # noqa: RUF005 (also of lists that grow in a plan)
    index = _place(position, len(items), len(items))
    return (*items[:index], item, *items[index:])


def erase(items: List, position: Any = ()) -> List:
    """Removes the element at a position, or the last one."""
    last = len(items) - 1
    index = last if isinstance(position, tuple) else _place(position, len(items), last)
    return (*items[:index], *items[index + 1 :])


def length(items: List) -> Array:
    """Returns the number of elements."""
    return np.asarray(len(items), np.int64)


def joined(items: Any, axis: Array) -> Any:
    """Concatenates the elements along an axis."""
    if isinstance(items, GrowingList):
        return items.concatenate(int(axis), False)
    return np.concatenate(items, int(axis))


def stacked(items: Any, axis: Array) -> Any:
    """Stacks the elements along a new axis."""
    if isinstance(items, GrowingList):
        return items.concatenate(int(axis), True)
    return np.stack(items, int(axis))


def parts(x: Array, sizes: Any, axis: Array, keep: Array) -> List:
    """Splits a tensor along an axis into parts of these sizes, or of one size."""
    along = int(axis)
    total = x.shape[along]
    if isinstance(sizes, tuple) or sizes.ndim == 0:
        part_size = 1 if isinstance(sizes, tuple) else int(sizes)
        if part_size < 1:
            raise ShapeMismatchError(f"split size: expected at least 1, found {part_size}")
        ends = list(range(part_size, total, part_size))
    else:
        ends = np.cumsum(sizes)[:-1].tolist()
        if int(np.sum(sizes)) != total:
            message = f"split sizes {sizes.tolist()} sum to {int(np.sum(sizes))}"
            raise ShapeMismatchError(f"{message}, expected {total}")
    tensors = np.split(x, ends, along)
    return tuple(p if bool(keep) else p.squeeze(along) for p in tensors)


def is_there(value: Any = None) -> Array:
    """Whether an optional has a value."""
    return np.asarray(value is not None)


def nothing() -> None:
    """Returns an empty optional."""
    return


MOVING: tuple[Any, ...] = (
    *(at, insert, erase, length),
    *(joined, stacked, is_there, nothing, empty),
)
for _function in (*MOVING, parts):
    register_extern(f"list.{_function.__name__}", _function, by_form=_function in MOVING)
