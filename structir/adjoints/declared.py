"""Derivatives by the rules that functions declare: see `analysis.derivative_rules`.

A tangent rule is linear in the tangents, so its pullback at tangents of zero is the pullback of the
function. A pullback is linear in the cotangents, so its pullback at cotangents of zero is the
derivative along tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from structir.adjoints.differentiable_leaves import Path, differentiable_leaves
from structir.analysis.derivative_rules import PULLBACK, TANGENT
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Call, Expr, Function, GlobalVar, Tuple
from structir.ir.module import IRModule
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.opdef.adjoint_op import zeros_of

Emit = Callable[[Expr], Expr]


class DerivedPullbacks(Protocol):
    """A provider of pullbacks that are derived from the bodies of functions."""

    module: IRModule

    def pullback(
        self, name: str, params: Sequence[int], result_paths: Sequence[Path]
    ) -> tuple[GlobalVar, list[tuple[int, Path]]] | None:
        """Returns the pullback of a function, and the parameters whose cotangents it returns."""
        ...


def rule_of(module: IRModule, function: Function, rule: str) -> GlobalVar:
    """Returns the function that a function declares as its derivative.

    Raises DiagnosticError if there is none of this name, or its parameters do not match.
    """
    name = str(function.attrs[rule])
    declared = module.functions.get(name)
    of_params = len(floating_params(function))
    of_result = len(differentiable_leaves(function.ret_struct_info))
    expected = len(function.params) + (of_result if rule == PULLBACK else of_params)
    if not isinstance(declared, Function) or len(declared.params) != expected:
        info = declared.struct_info if isinstance(declared, Function) else "no function"
        message = f"{rule}: expected a function {name} with {expected} parameters, found {info}"
        hint = f'declare the function, or remove the attribute "{rule}"'
        raise DiagnosticError(Diagnostic(message, function.span, hint=hint, code="E0655"))
    return GlobalVar(name, declared.struct_info)


def floating_params(function: Function) -> list[int]:
    """Returns the indices of floating-point parameters."""
    return [k for k, p in enumerate(function.params) if () in differentiable_leaves(p.struct_info)]


def cotangents(
    functions: DerivedPullbacks,
    function: Function,
    params: Sequence[Expr],
    given: Mapping[Path, Expr],
    infos: Mapping[Path, StructInfo],
    emit: Emit,
) -> dict[int, Expr]:
    """Returns the cotangents of floating-point parameters by the rule of a function.

    `given` are cotangents of some tensors of the result, `infos` the StructInfo of all.
    """
    indices = floating_params(function)
    if PULLBACK in function.attrs:
        rule = rule_of(functions.module, function, PULLBACK)
        seeds = [given[path] if path in given else emit(zeros_of(i)) for path, i in infos.items()]
        return dict(zip(indices, _fields(Call(rule, (*params, *seeds)), emit), strict=True))
    rule = rule_of(functions.module, function, TANGENT)
    count, first = len(params), _result_count(function)
    paths: list[Path] = [(first + k,) for k, path in enumerate(infos) if path in given]
    pullback = functions.pullback(rule.name, range(count, count + len(indices)), paths)
    assert pullback is not None
    directions = [emit(zeros_of(params[k].struct_info)) for k in indices]
    seeds = [given[path] for path in infos if path in given]
    results = _fields(Call(pullback[0], (*params, *directions, *seeds)), emit)
    pairs = zip(pullback[1], results, strict=True)
    return {indices[k - count]: result for (k, _), result in pairs}


def tangents(
    functions: DerivedPullbacks,
    function: Function,
    call: Call,
    directions: Mapping[int, Expr],
    emit: Emit,
) -> tuple[Expr, dict[Path, Expr]]:
    """Returns the result of a call, and the tangents of its tensors, by the rule of a function.

    `directions` are the tangents of some floating-point parameters.
    """
    indices = floating_params(function)
    leaves = differentiable_leaves(function.ret_struct_info)
    if TANGENT in function.attrs:
        rule = rule_of(functions.module, function, TANGENT)
        moved = [
            directions[k] if k in directions else emit(zeros_of(call.args[k].struct_info))
            for k in indices
        ]
        results = _fields(Call(rule, (*call.args, *moved)), emit)
        count = _result_count(function)
        is_tuple = isinstance(function.ret_struct_info, TupleStructInfo)
        value = emit(Tuple(tuple(results[:count]))) if is_tuple else results[0]
        return value, dict(zip(leaves, results[count:], strict=True))
    rule = rule_of(functions.module, function, PULLBACK)
    result = emit(call)
    count = len(function.params)
    paths: list[Path] = [(k,) for k, index in enumerate(indices) if index in directions]
    pullback = functions.pullback(rule.name, range(count, count + len(leaves)), paths)
    assert pullback is not None
    tensors = [_at(result, path, emit) for path in leaves]
    seeds = [emit(zeros_of(tensor.struct_info)) for tensor in tensors]
    moved = [directions[index] for index in indices if index in directions]
    parts = _fields(Call(pullback[0], (*call.args, *seeds, *moved)), emit)
    positions = list(leaves)
    pairs = zip(pullback[1], parts, strict=True)
    return result, {positions[k - count]: part for (k, _), part in pairs}


def _result_count(function: Function) -> int:
    info = function.ret_struct_info
    return len(info.fields) if isinstance(info, TupleStructInfo) else 1


def _at(result: Expr, path: Path, emit: Emit) -> Expr:
    for index in path:
        result = emit(result[index])
    return result


def _fields(call: Call, emit: Emit) -> list[Expr]:
    """Returns the fields of the result of a call: a tuple, or one tensor."""
    result = emit(call)
    if not isinstance(result.struct_info, TupleStructInfo):
        return [result]
    return [emit(result[k]) for k in range(len(result.struct_info.fields))]
