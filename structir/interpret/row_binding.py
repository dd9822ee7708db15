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
    unbound row variables in one shape are ambiguous; then only the rank is checked.
    """
    equations: list[AxisEquation] = []
    pending, before = shapes, len(shapes) + 1
    while len(pending) < before:
        before = len(pending)
        ambiguous: list[ShapeWithRows] = []
        for axes, shape, where in pending:
            unknown = {row for row in rows_in(axes) if row not in sizes}
            if len(unknown) > 1 or len([r for r in rows_in(axes) if r in unknown]) > 1:
                _check_length(axes, shape, where, sizes)
                ambiguous.append((axes, shape, where))
            else:
                equations += _bind_one_row(axes, shape, where, sizes)
        pending = ambiguous
    return equations


def _check_length(axes: Axes, shape: tuple[int, ...], where: str, sizes: Any) -> None:
    min_rank = sum([len(sizes.get(axis, ())) if type(axis) is RowVar else 1 for axis in axes])
    if len(shape) < min_rank:
        raise mismatch(where, f"at least {min_rank} axes", f"{len(shape)}: shape {shape}")


def _bind_one_row(axes: Axes, shape: tuple[int, ...], where: str, sizes: Any) -> list[AxisEquation]:
    """Binds the single unbound row variable of a shape, if any; returns the equations of the other
    axes."""
    _check_length(axes, shape, where, sizes)
    fixed = sum([len(sizes.get(axis, ())) if type(axis) is RowVar else 1 for axis in axes])
    if len(shape) > fixed and all([row in sizes for row in rows_in(axes)]):
        raise mismatch(where, f"{fixed} axes", f"{len(shape)}: shape {shape}")
    equations: list[AxisEquation] = []
    position = 0
    for axis in map(size_in, axes):
        if type(axis) is RowVar:
            count = len(sizes[axis]) if axis in sizes else len(shape) - fixed
            run = shape[position : position + count]
            if sizes.setdefault(axis, run) != run:
                raise mismatch(f"{where}: axes of {axis}", str(sizes[axis]), str(run))
            position += count
            continue
        equations += _equations_of(axis, shape[position], f"{where}: axis {position}")
        position += 1
    return equations


def _equations_of(axis: Any, size: Any, where: str) -> list[AxisEquation]:
    if type(axis) is int or type(axis) is Poly:
        return [AxisEquation(axis, size if type(size) is Poly else int(size), where)]
    return []
