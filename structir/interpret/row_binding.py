"""Binds row variables to the axes of actual shapes."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import attrs

from structir.errors import ShapeMismatchError
from structir.ir.axes import Axes, Ragged, RowVar, rows_in, size_in
from structir.ir.dims import Dim, Poly

Met = tuple[Axes, tuple[int, ...], str]


@attrs.frozen(eq=False)
class StatedSize:
    """A stated size, and the one found."""

    stated: Dim
    found: int
    where: str  # "main: parameter x: axis 1"


def mismatch(where: str, expected: str, found: str, code: str = "") -> ShapeMismatchError:
    """Returns the error of a value that does not have its declared StructInfo."""
    return ShapeMismatchError(f"{where}: expected {expected}, found {found}", code=code)


def bound_rows(met: list[Met], known: MutableMapping[Any, Any]) -> list[StatedSize]:
    """The sizes that shapes state once their rows are known; new rows go into `known`.

    Shapes of one unknown row tell it, and so may tell another the next time round. What is left
    then has two rows side by side: they cannot be told apart, and only the length is checked.
    """
    found: list[StatedSize] = []
    waiting, before = met, len(met) + 1
    while len(waiting) < before:
        before = len(waiting)
        left: list[Met] = []
        for axes, shape, where in waiting:
            unknown = {row for row in rows_in(axes) if row not in known}
            if len(unknown) > 1 or len([r for r in rows_in(axes) if r in unknown]) > 1:
                _check_length(axes, shape, where, known)
                left.append((axes, shape, where))
            else:
                found += _told(axes, shape, where, known)
        waiting = left
    return found


def _check_length(axes: Axes, shape: tuple[int, ...], where: str, known: Any) -> None:
    least = sum([len(known.get(axis, ())) if type(axis) is RowVar else 1 for axis in axes])
    if len(shape) < least:
        raise mismatch(where, f"at least {least} axes", f"{len(shape)}: shape {shape}")


def _told(axes: Axes, shape: tuple[int, ...], where: str, known: Any) -> list[StatedSize]:
    """The sizes of a shape of at most one unknown row, which becomes known."""
    _check_length(axes, shape, where, known)
    fixed = sum([len(known.get(axis, ())) if type(axis) is RowVar else 1 for axis in axes])
    if len(shape) > fixed and all([row in known for row in rows_in(axes)]):
        raise mismatch(where, f"{fixed} axes", f"{len(shape)}: shape {shape}")
    found: list[StatedSize] = []
    place = 0
    for axis in map(size_in, axes):
        if type(axis) is RowVar:
            count = len(known[axis]) if axis in known else len(shape) - fixed
            run = shape[place : place + count]
            if known.setdefault(axis, run) != run:
                raise mismatch(f"{where}: axes of {axis}", str(known[axis]), str(run))
            place += count
            continue
        found += _size(axis, shape[place], f"{where}: axis {place}")
        place += 1
    return found


def _size(axis: Any, found: int, where: str) -> list[StatedSize]:
    if type(axis) is int or type(axis) is Poly:
        return [StatedSize(axis, int(found), where)]
    if type(axis) is Ragged:
        raise mismatch(where, "a ragged axis", f"an array whose {found} rows are equally long")
    return []
