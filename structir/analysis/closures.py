"""Closures as functions of the module: captured values become parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from structir.analysis.axes import tensor
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.ir.axes import AnySize, Labelled, size_in
from structir.ir.binding_dims import standing_alone
from structir.ir.dims import Sym, sym
from structir.ir.expr import DataflowVar, Function, If, SeqExpr, ShapeExpr, Var
from structir.ir.node import replace
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo


def with_captured(
    function: Function, captured: Sequence[Var], sizes: Sequence[ShapeExpr]
) -> Function:
    """Returns a function with more parameters, for captured variables and unbound dims."""
    params = params_for(captured)
    changed = {
        v: p
        for v, p in params.items()
        if p.struct_info is not v.struct_info or type(v) is DataflowVar
    }
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


def visible_binders(function: Function) -> dict[Var, dict[Any, Var]]:
    """Returns the values that bind each row and dtype variable where a closure is defined.

    They are variables in scope there, by closure. A value cannot state such a variable, as a shape
    states a size; another value with it is passed instead.
    """
    binders: dict[Var, dict[Any, Var]] = {}
    _visit_sequence(function.body, _with_values({}, function.params), binders)
    return binders


def _visit_sequence(
    seq: SeqExpr, scope: dict[Any, Var], binders: dict[Var, dict[Any, Var]]
) -> None:
    for block in seq.blocks:
        inside = dict(scope)  # also dataflow variables
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Function):
                binders[binding.var] = dict(inside)
                _visit_sequence(value.body, _with_values(inside, value.params), binders)
            elif isinstance(value, If):
                for branch in (value.true_branch, value.false_branch):
                    _visit_sequence(branch, dict(inside), binders)
            inside = _with_values(inside, [binding.var])
            if type(binding.var) is Var:
                scope = _with_values(scope, [binding.var])


def _with_values(scope: dict[Any, Var], values: Iterable[Var]) -> dict[Any, Var]:
    """Returns a scope in which these values bind the variables that no other value binds."""
    new = {
        variable: value
        for value in values
        for variable in standing_alone([value.struct_info])
        if type(variable) is not Sym and variable not in scope
    }
    return {**new, **scope} if new else scope


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
