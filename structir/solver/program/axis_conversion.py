"""Axes of the IR and rows of the solver: the one as the other."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, tensor
from structir.ir.axes import AnySize, Axes, Labelled, Ragged, size_in
from structir.ir.polynomial import Poly
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.constraints.constraint import Constraint, DimEq, Label
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
from structir.solver.solver import Solver, Value


def as_row(axes: Axes) -> Row:
    """Axes as the solver speaks of them, labels left out; a size of any kind is a new variable."""
    return tuple([_element(size_in(axis)) for axis in axes])


def _element(size: Any) -> Any:
    match size:
        case Ragged(name):
            return ragged(name) if name else RAGGED
        case AnySize():
            return fresh()
    return size


def as_labelled_row(axes: Axes) -> tuple[Row, list[Constraint]]:
    """The same where labels count: each axis has a variable of its own, which carries its label."""
    row: list[Element] = []
    further: list[Constraint] = []
    for axis, element in zip(axes, as_row(axes), strict=True):
        own = element if type(element) is RowVar else fresh()
        row.append(own)
        if own is not element:
            further.append(DimEq(own, element))  # type: ignore[arg-type]
        if type(axis) is Labelled:
            further.append(Label(own, axis.label))  # type: ignore[arg-type]
    return tuple(row), further


def as_axes(solver: Solver, value: Value) -> Axes:
    """The row of a value as axes, with what labels they have."""
    shape, labels = solver.shape(value), solver.labels(value)
    both = zip(shape, labels, strict=True)
    return tuple([_axis(element, label) for element, label in both])


def resolve_info(solver: Solver, info: StructInfo) -> StructInfo:
    """A struct info in the solver's terms with what has become known of them since."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([resolve_info(solver, field) for field in info.fields]))
    axes = axes_of(info) if isinstance(info, TensorStructInfo) else None
    if axes is None:
        return info
    shape = solver.resolve(as_row(axes))
    labels = [getattr(axis, "label", None) for axis in axes]
    if len(shape) != len(axes):  # a row has turned out to be several axes: none has a label
        labels = [None] * len(shape)
    return tensor(tuple(map(_axis, shape, labels)), info.dtype)  # type: ignore[attr-defined]


def _axis(element: Any, label: str | None) -> Any:
    symbol = symbol_of(element) if type(element) is Poly else None
    size = element
    if symbol is not None and symbol in RAGGED_SYMS:
        size = Ragged(symbol.name.removeprefix("*").removeprefix(":"))
    return Labelled(size, label) if label is not None else size
