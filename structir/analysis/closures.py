"""Closures as functions of the module: captured values become parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from structir.analysis.axes import tensor
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.ir.axes import AnySize, Labelled, size_in
from structir.ir.dims import sym
from structir.ir.expr import Function, ShapeExpr, Var
from structir.ir.node import replace
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo


def with_captured(
    function: Function, captured: Sequence[Var], sizes: Sequence[ShapeExpr]
) -> Function:
    """Returns a function with more parameters, for captured variables and unbound dims."""
    params = params_for(captured)
    changed = {v: p for v, p in params.items() if p.struct_info is not v.struct_info}
    shapes = [Var("sizes", ShapeStructInfo(shape.dims)) for shape in sizes]
    substituted = Substitution(changed).function(function) if changed else function
    more = [changed.get(v, v) for v in captured]  # the copy below renames variables
    extended = replace(
        substituted,
        params=(*substituted.params, *more, *shapes),
        attrs={**function.attrs, PRIVATE: True},
    )
    return Substitution(fresh=True).function(extended)


def params_for(values: Iterable[Var]) -> dict[Var, Var]:
    """Returns a parameter for each value that a function captures.

    A parameter binds each size of its tensors, so that an unknown one becomes a dim.
    """
    numbers = count()
    return {v: Var(v.name, _with_dims(v.struct_info, numbers), v.span) for v in values}


def _with_dims(info: StructInfo, numbers: Iterator[int]) -> StructInfo:
    """Returns a StructInfo with a new dim for each unknown size of a tensor of known form."""
    if isinstance(info, TupleStructInfo):
        fields = tuple([_with_dims(field, numbers) for field in info.fields])
        return TupleStructInfo(fields, info.names)
    if not isinstance(info, TensorStructInfo) or info.axes is None:
        return info
    axes = tuple([_with_dim(axis, numbers) for axis in info.axes])
    return info if axes == info.axes else tensor(axes, info.element, info.vdevice)


def _with_dim(axis: Any, numbers: Iterator[int]) -> Any:
    if type(size_in(axis)) is not AnySize:
        return axis
    size = sym(f"_{next(numbers)}")
    return Labelled(size, axis.label) if type(axis) is Labelled else size
