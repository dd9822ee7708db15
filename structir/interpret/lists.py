"""Lists as values of a running program: functions from outside that make and read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]
List = tuple[Any, ...]


class GrowingList:
    """A list that is made by a plan: of its elements only the form is known."""

    __slots__ = ()

    def __add__(self, items: List) -> Any:
        """The list with more at its end."""
        raise TypeError

    def side_by_side(self, axis: int, new: bool) -> Any:
        """The elements along an axis, a new one or one that they have."""
        raise TypeError


def _place(position: Array, length: int, last: int) -> int:
    """A position counted from the front; it may be no greater than `last`."""
    asked = int(position.item())
    place = asked + length if asked < 0 else asked
    if not 0 <= place <= last:
        raise ShapeMismatchError(f"there is no place {asked} in a list of {length}")
    return place


def empty() -> List:
    """A list of nothing."""
    return ()


def at(items: List, position: Array) -> Any:
    """One element."""
    return items[_place(position, len(items), len(items) - 1)]


def insert(items: List, item: Any, position: Any = ()) -> List:
    """The list with one element more, before a position or at the end."""
    if isinstance(items, list):  # an argument
        items = tuple(items)
    if isinstance(position, tuple):
        return items + (item,)  # noqa: RUF005 (also of lists that grow in a plan)
    place = _place(position, len(items), len(items))
    return (*items[:place], item, *items[place:])


def erase(items: List, position: Any = ()) -> List:
    """The list without one element, or without its last one."""
    last = len(items) - 1
    place = last if isinstance(position, tuple) else _place(position, len(items), last)
    return (*items[:place], *items[place + 1 :])


def length(items: List) -> Array:
    """How many elements there are."""
    return np.asarray(len(items), np.int64)


def joined(items: Any, axis: Array) -> Any:
    """The elements one after the other along an axis."""
    if isinstance(items, GrowingList):
        return items.side_by_side(int(axis), False)
    return np.concatenate(items, int(axis))


def stacked(items: Any, axis: Array) -> Any:
    """The elements side by side along a new axis."""
    if isinstance(items, GrowingList):
        return items.side_by_side(int(axis), True)
    return np.stack(items, int(axis))


def parts(x: Array, sizes: Any, axis: Array, keep: Array) -> List:
    """A tensor cut along an axis in pieces of these sizes, all of one size if there is but one."""
    along = int(axis)
    total = x.shape[along]
    if isinstance(sizes, tuple) or sizes.ndim == 0:
        each = 1 if isinstance(sizes, tuple) else int(sizes)
        if each < 1:
            raise ShapeMismatchError(f"a tensor cannot be cut in pieces of {each}")
        ends = list(range(each, total, each))
    else:
        ends = np.cumsum(sizes)[:-1].tolist()
        if int(np.sum(sizes)) != total:
            raise ShapeMismatchError(f"pieces of {sizes.tolist()} do not make up {total}")
    pieces = np.split(x, ends, along)
    return tuple(p if bool(keep) else p.squeeze(along) for p in pieces)


def is_there(value: Any = None) -> Array:
    """Whether an optional value is there."""
    return np.asarray(value is not None)


def nothing() -> None:
    """An optional value that is not there."""
    return


MOVING: tuple[Any, ...] = (
    *(at, insert, erase, length),
    *(joined, stacked, is_there, nothing, empty),
)
for _function in (*MOVING, parts):
    register_extern(f"list.{_function.__name__}", _function, by_form=_function in MOVING)
