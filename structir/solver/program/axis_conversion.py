"""Conversion between axes of the IR and rows of the solver."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, Axes, Labelled, Ragged, size_in
from structir.ir.node import replace
from structir.ir.polynomial import Poly
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.constraints.constraint import AxisVariable, Constraint, DimEq, Label
from structir.solver.domains.terms import (
    RAGGED,
    RAGGED_SYMS,
    Element,
    Row,
    RowVar,
    ragged,
    symbol_of,
)
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import ConstraintSolver, Value


def as_row(axes: Axes) -> Row:
    """Returns axes as a row without labels; an `AnySize` becomes a fresh variable."""
    return tuple([_element(size_in(axis)) for axis in axes])


def _element(size: Any) -> Any:
    match size:
        case Ragged(name):
            return ragged(name) if name else RAGGED
        case AnySize():
            return fresh()
    return size


def as_labelled_row(axes: Axes) -> tuple[Row, list[Constraint]]:
    """Returns axes as a row with a variable per axis, and the constraints of sizes and labels."""
    row: list[Element] = []
    constraints: list[Constraint] = []
    for axis, element in zip(axes, as_row(axes), strict=True):
        variable = element if type(element) is RowVar else fresh()
        row.append(variable)
        if variable is not element:
            constraints += [AxisVariable(variable), DimEq(variable, element)]  # type: ignore[arg-type]
        if type(axis) is Labelled:
            constraints.append(Label(variable, axis.label))  # type: ignore[arg-type]
    return tuple(row), constraints


def as_axes(solver: ConstraintSolver, value: Value) -> Axes:
    """Returns the row of a value as axes, with labels."""
    shape = solver.shape(value)
    if not solver.store.labels:  # most programs have none
        return tuple([e if type(e) is int else _axis(e, None) for e in shape])
    pairs = zip(shape, solver.labels(value), strict=True)
    return tuple([_axis(element, label) for element, label in pairs])


def resolve_info(solver: ConstraintSolver, info: StructInfo) -> StructInfo:
    """Returns a StructInfo in terms of the solver with all bindings substituted."""
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple([resolve_info(solver, field) for field in info.fields]))
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    if axes is None:
        return info
    shape = solver.resolve(as_row(axes))
    labels = [getattr(axis, "label", None) for axis in axes]
    if len(shape) != len(axes):  # a row variable was bound to several axes, which have no labels
        labels = [None] * len(shape)
    axes = tuple(map(_axis, shape, labels))
    return tensor(axes, info.element, info.vdevice)  # type: ignore[attr-defined]


def _axis(element: Any, label: str | None) -> Any:
    symbol = symbol_of(element) if type(element) is Poly else None
    size = element
    if symbol is not None and symbol in RAGGED_SYMS:
        size = Ragged(symbol.name.removeprefix("*").removeprefix(":"))
    return Labelled(size, label) if label is not None else size
