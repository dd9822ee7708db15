"""Binds row variables to the axes of actual shapes."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import attrs

from structir.errors import ShapeMismatchError
from structir.ir.axes import Axes, RowVar, rows_in, size_in
from structir.ir.dims import Dim, Poly

ShapeWithRows = tuple[Axes, tuple[int, ...], str]


@attrs.frozen(eq=False)
class AxisEquation:
    """A declared size, and the actual one."""

    declared: Dim
    actual: Any  # an integer, or a dim
    where: str  # "main: parameter x: axis 1"


def mismatch(where: str, expected: str, actual: str, code: str = "") -> ShapeMismatchError:
    """Returns the error of a value that does not have its declared StructInfo."""
    return ShapeMismatchError(f"{where}: expected {expected}, found {actual}", code=code)


def bind_rows(shapes: list[ShapeWithRows], sizes: MutableMapping[Any, Any]) -> list[AxisEquation]:
    """Binds row variables in `sizes`; returns the equations between the sizes of the other axes.

    A shape with a single unbound row variable binds it, which may make other shapes solvable. Two
    unbound row variables in one shape are ambiguous; then the rank is checked, the axes before the
    first and after the last of them, and that adjacent ones have the same axes in each shape.
    """
    equations: list[AxisEquation] = []
    pending, before = shapes, len(shapes) + 1
    while len(pending) < before:
        before = len(pending)
        ambiguous: list[ShapeWithRows] = []
        for axes, shape, where in pending:
            if len({row for row in rows_in(axes) if row not in sizes}) > 1:
                _check_length(axes, shape, where, sizes)
                ambiguous.append((axes, shape, where))
            else:
                equations += _bind_one_row(axes, shape, where, sizes)
        pending = ambiguous
    runs: dict[Axes, tuple[int, ...]] = {}
    for axes, shape, where in pending:
        equations += _equations_at_the_ends(axes, shape, where, sizes, runs)
    return equations


def _count(axes: Axes, sizes: Any) -> int:
    """Returns the number of axes, without those of unbound row variables."""
    return sum([len(sizes.get(axis, ())) if type(axis) is RowVar else 1 for axis in axes])


def _check_length(axes: Axes, shape: tuple[int, ...], where: str, sizes: Any) -> None:
    min_rank = _count(axes, sizes)
    if len(shape) < min_rank:
        raise mismatch(where, f"at least {min_rank} axes", f"{len(shape)}: shape {shape}")


def _bind_one_row(axes: Axes, shape: tuple[int, ...], where: str, sizes: Any) -> list[AxisEquation]:
    """Binds the single unbound row variable of a shape, if any; returns the equations of the other
    axes. The variable may occur several times."""
    _check_length(axes, shape, where, sizes)
    unbound = [row for row in rows_in(axes) if row not in sizes]
    fixed = _count(axes, sizes)
    if not unbound and len(shape) > fixed:
        raise mismatch(where, f"{fixed} axes", f"{len(shape)}: shape {shape}")
    if unbound and (len(shape) - fixed) % len(unbound):
        expected = f"{fixed} axes and {len(unbound)} times those of {unbound[0]}"
        raise mismatch(where, expected, f"{len(shape)}: shape {shape}")
    if unbound:
        count = (len(shape) - fixed) // len(unbound)
        begin = _count(axes[: axes.index(unbound[0])], sizes)
        sizes[unbound[0]] = shape[begin : begin + count]
    return _equations_of_axes(axes, shape, where, sizes)


def _equations_at_the_ends(
    axes: Axes, shape: tuple[int, ...], where: str, sizes: Any, runs: dict[Axes, tuple[int, ...]]
) -> list[AxisEquation]:
    """Returns the equations of the axes around the unbound row variables of a shape.

    Adjacent variables take the axes between in `runs`; other axes there are a mismatch.
    """
    unbound = [i for i, axis in enumerate(axes) if type(axis) is RowVar and axis not in sizes]
    first, last = unbound[0], unbound[-1] + 1
    start = len(shape) - _count(axes[last:], sizes)
    if len(unbound) == last - first:
        rows, run = axes[first:last], shape[_count(axes[:first], sizes) : start]
        if runs.setdefault(rows, run) != run:
            names = ", ".join(map(str, rows))
            raise mismatch(f"{where}: axes of {names}", str(runs[rows]), str(run))
    equations = _equations_of_axes(axes[:first], shape, where, sizes)
    return equations + _equations_of_axes(axes[last:], shape, where, sizes, start)


def _equations_of_axes(
    axes: Axes, shape: tuple[int, ...], where: str, sizes: Any, start: int = 0
) -> list[AxisEquation]:
    """Returns the equations of axes whose row variables are bound, which it checks.

    The first of them is axis `start` of the shape.
    """
    equations: list[AxisEquation] = []
    position = start
    for axis in map(size_in, axes):
        if type(axis) is RowVar:
            run = shape[position : position + len(sizes[axis])]
            if sizes[axis] != run:
                raise mismatch(f"{where}: axes of {axis}", str(sizes[axis]), str(run))
            position += len(run)
            continue
        equations += _equations_of(axis, shape[position], f"{where}: axis {position}")
        position += 1
    return equations


def _equations_of(axis: Any, size: Any, where: str) -> list[AxisEquation]:
    if type(axis) is int or type(axis) is Poly:
        return [AxisEquation(axis, size if type(size) is Poly else int(size), where)]
    return []
