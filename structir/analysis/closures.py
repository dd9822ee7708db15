"""Closures as functions of the module: captured values become parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from structir.analysis.axes import tensor
from structir.analysis.erasure import erase_to_well_defined
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.lattice import PASS, base_check
from structir.analysis.substitution import Substitution
from structir.ir.axes import AnySize, Labelled, size_in
from structir.ir.binding_dims import bound_dims, standing_alone
from structir.ir.dims import sym
from structir.ir.expr import DataflowVar, Function, If, MatchCast, SeqExpr, ShapeExpr, Var
from structir.ir.struct_info import ShapeStructInfo, StructInfo, TensorStructInfo, TupleStructInfo


def with_captured(
    function: Function, captured: Sequence[Var], sizes: Sequence[ShapeExpr]
) -> Function:
    """Returns a function with more parameters, for captured variables and unbound dims.

    It shares its variables and dims with the original: a second function needs a copy with new
    ones, `Substitution(fresh=True)`.
    """
    numbers = count()
    infos = [_with_dims(value.struct_info, numbers) for value in captured]
    changed = {
        value: Var(value.name, info, value.span)
        for value, info in zip(captured, infos, strict=True)
        if info is not value.struct_info or type(value) is DataflowVar
    }
    if changed:
        function = Substitution(changed).function(function)
    shapes = [Var("sizes", ShapeStructInfo(shape.dims)) for shape in sizes]
    params_of_all = (*function.params, *[changed.get(v, v) for v in captured], *shapes)
    result = _result_info(function, params_of_all)
    attributes = {**function.attrs, PRIVATE: True}
    return Function(
        params_of_all, function.body, result, function.is_pure, attributes, function.span
    )


def _result_info(function: Function, params: Sequence[Var]) -> StructInfo:
    """Returns the StructInfo of the result over the dims that these parameters bind, if it is more
    precise than that of the function."""
    info = function.body.body.struct_info
    if info is None or info == function.ret_struct_info:
        return function.ret_struct_info
    bound = bound_dims([param.struct_info for param in params])
    erased = erase_to_well_defined(info, bound, params)
    is_refined = base_check(function.ret_struct_info, erased) is PASS
    return erased if is_refined else function.ret_struct_info


def params_for(values: Iterable[Var]) -> dict[Var, Var]:
    """Returns a parameter for each value that a function captures.

    A parameter binds each size of its tensors, so that an unknown one becomes a dim.
    """
    numbers = count()
    return {v: Var(v.name, _with_dims(v.struct_info, numbers), v.span) for v in values}


Scope = Mapping[Any, Var | None]


def scopes_of(function: Function) -> dict[Var, Scope]:
    """Returns the symbolic, row and dtype variables in scope at each binding, by its variable.

    Each has a value in scope whose StructInfo binds it, or None: a shape states a size, but a row
    or a dtype is only known from such a value.
    """
    scopes: dict[Var, Scope] = {}
    _visit_sequence(function.body, _with_values({}, function.params), scopes)
    return scopes


def _visit_sequence(seq: SeqExpr, scope: Scope, scopes: dict[Var, Scope]) -> None:
    for block in seq.blocks:
        local: set[Var] = set()
        for binding in block.bindings:
            scopes[binding.var] = scope
            value = binding.value
            if isinstance(value, Function):
                _visit_sequence(value.body, _with_values(scope, value.params), scopes)
            elif isinstance(value, If):
                for branch in (value.true_branch, value.false_branch):
                    _visit_sequence(branch, scope, scopes)
            scope = _with_values(scope, [binding.var])
            if isinstance(binding, MatchCast):
                scope = {**dict.fromkeys(standing_alone([binding.struct_info])), **scope}
            if type(binding.var) is DataflowVar:
                local.add(binding.var)
        if not local.isdisjoint(scope.values()):
            scope = {name: None if value in local else value for name, value in scope.items()}


def _with_values(scope: Scope, values: Iterable[Var]) -> Scope:
    """Returns a scope in which these values bind the variables that no other value binds."""
    new = {
        variable: value
        for value in values
        for variable in standing_alone([value.struct_info])
        if scope.get(variable) is None
    }
    return {**scope, **new} if new else scope


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
