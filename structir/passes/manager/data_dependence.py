"""Finds the results of a function that depend on the values of its inputs, not on sizes alone."""

from __future__ import annotations

from typing import Any

from structir.analysis.variables import free_vars, variables_in
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    Function,
    If,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import ShapeStructInfo
from structir.opdef.memo import spec_of

Dependence = Any  # whether a value depends on inputs, or a tuple of it for a tuple


def data_dependence(function: Function) -> list[bool]:
    """Returns for each leaf of the result, the length of each tuple among them, whether it may
    depend on the values of inputs."""
    known: dict[Var, Dependence] = {
        param: not isinstance(param.struct_info, ShapeStructInfo) for param in function.params
    }
    return list(_leaves(_sequence(function.body, known), function.ret_struct_info))


def _sequence(seq: SeqExpr, known: dict[Var, Dependence]) -> Dependence:
    for binding in seq.bindings():
        known[binding.var] = _binding(binding, known)
    return _value(seq.body, known)


def _binding(binding: Binding, known: dict[Var, Dependence]) -> Dependence:
    value, info = binding.value, binding.var.struct_info
    if isinstance(info, ShapeStructInfo) and info.dims is not None:
        return False
    if isinstance(value, If):
        branches = [_sequence(b, known) for b in (value.true_branch, value.false_branch)]
        return _any(_value(value.cond, known)) or any(map(_any, branches))
    return _value(value, known)


def _value(value: Expr, known: dict[Var, Dependence]) -> Dependence:
    if isinstance(value, Var):
        return known.get(value, False)
    if isinstance(value, Tuple):
        return tuple([_value(field, known) for field in value.fields])
    if isinstance(value, TupleGetItem):
        whole = _value(value.tuple_value, known)
        return whole[value.index] if isinstance(whole, tuple) else whole
    if isinstance(value, Call):
        return any(_any(_value(arg, known)) for arg in _data_operands(value))
    if isinstance(value, Function):
        return any(_any(known.get(var, False)) for var in free_vars(value))
    return any(_any(known.get(var, False)) for var in variables_in(value))


def _data_operands(call: Call) -> list[Expr]:
    """Returns the operands whose values a call reads."""
    if not isinstance(call.op, Op):
        return [call.op, *call.args]
    spec: Any = spec_of(call)
    if spec is None or not spec.computes:
        sizes = call.op.definition.of_sizes
        tensors = [*call.args[: len(sizes)]]
        return [arg for arg, of_size in zip(tensors, sizes, strict=False) if not of_size]
    reads = {read.operand for each in spec.statements for read in each.reads}
    paths = [spec.operands[k].path for k in sorted(reads | {spec.base} - {None})]
    return [_at(call.args, path) for path in paths]


def _at(args: Any, path: tuple[int, ...]) -> Any:
    operand = args[path[0]]
    for position in path[1:]:
        operand = operand.fields[position] if isinstance(operand, Tuple) else operand
    return operand


def _any(dependence: Dependence) -> bool:
    return any(map(_any, dependence)) if isinstance(dependence, tuple) else bool(dependence)


def _leaves(dependence: Dependence, info: Any) -> list[bool]:
    """Returns the dependence of the leaves of a result, in the order of `perturbation.leaves`."""
    fields = getattr(info, "fields", None)
    if fields is None:
        return [_any(dependence)]
    parts = dependence if isinstance(dependence, tuple) else (dependence,) * len(fields)
    pairs = zip(parts, fields, strict=False)
    return [False, *[leaf for part, field in pairs for leaf in _leaves(part, field)]]
