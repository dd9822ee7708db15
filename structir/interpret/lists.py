"""Lists as values of a running program: functions from outside that make and read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]
List = tuple[Any, ...]


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
    items = tuple(items)
    end = len(items)
    place = end if isinstance(position, tuple) else _place(position, end, end)
    return (*items[:place], item, *items[place:])


def erase(items: List, position: Any = ()) -> List:
    """The list without one element, or without its last one."""
    last = len(items) - 1
    place = last if isinstance(position, tuple) else _place(position, len(items), last)
    return (*items[:place], *items[place + 1 :])


def length(items: List) -> Array:
    """How many elements there are."""
    return np.asarray(len(items), np.int64)


def joined(items: List, axis: Array) -> Array:
    """The elements one after the other along an axis."""
    return np.concatenate(items, int(axis))


def stacked(items: List, axis: Array) -> Array:
    """The elements side by side along a new axis."""
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


MOVING: tuple[Any, ...] = (at, insert, erase, length, is_there, nothing, empty)
LOOKING: tuple[Any, ...] = (joined, stacked, parts)
for _function in (*MOVING, *LOOKING):
    register_extern(f"list.{_function.__name__}", _function, by_form=_function in MOVING)
