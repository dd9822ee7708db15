"""Converts functions to A-normal form: atomic operands, and StructInfo for each value."""

from __future__ import annotations

from typing import Any

from structir.analysis.deduction import deduce
from structir.build import over_atoms
from structir.ir.bodies import with_blocks
from structir.ir.expr import (
    ATOMS,
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import replace
from structir.ir.op import Op
from structir.passes.base import function_pass

FLAT = ATOMS | {Op}


@function_pass(aliases=("normalize",), preserves=("topological_sort",))
def normalise(function: Function) -> Function:
    """Binds nested expressions to variables, infers missing StructInfo, removes empty blocks."""
    function = with_blocks(function, lambda block: [_flatten(block)] if block.bindings else [])
    body = function.body
    if type(body.body) in ATOMS or _is_flat(body.body):
        return function
    bindings: list[Binding] = []
    result = _atom(body.body, bindings, Var)
    blocks = (*body.blocks, BindingBlock(tuple(bindings)))
    return replace(function, body=SeqExpr(blocks, result, body.struct_info, body.span))


def _flatten(block: BindingBlock) -> BindingBlock:
    for binding in block.bindings:
        value = binding.value
        if not _is_flat(value) or value.struct_info is None:
            break
    else:
        return block
    kind = DataflowVar if isinstance(block, DataflowBlock) else Var
    bindings: list[Binding] = []
    for binding in block.bindings:
        value = binding.value
        if not _is_flat(value):
            value = over_atoms(value, lambda part: _bind(part, bindings, kind))
        if value.struct_info is None:
            value = replace(value, struct_info=deduce(value))
        bindings.append(binding if value is binding.value else replace(binding, value=value))
    return replace(block, bindings=tuple(bindings))


def _is_flat(value: Any) -> bool:
    """Whether all operands are atoms or tuples of atoms."""
    kind = type(value)
    if kind is Call:
        for argument in value.args:
            if type(argument) not in FLAT and not _is_flat_tuple(argument):
                return False
        return type(value.op) in FLAT
    if kind is Tuple:
        return _is_flat_tuple(value)
    return kind is not TupleGetItem or type(value.tuple_value) in FLAT


def _is_flat_tuple(value: Any) -> bool:
    if type(value) is not Tuple:
        return False
    return all([type(field) in FLAT or _is_flat_tuple(field) for field in value.fields])


def _bind(value: Any, bindings: list[Binding], kind: type[Var]) -> Var:
    if value.struct_info is None:
        value = replace(value, struct_info=deduce(value))
    var = kind("lv", value.struct_info, value.span)
    bindings.append(VarBinding(var, value, value.span))
    return var


def _atom(value: Any, bindings: list[Binding], kind: type[Var]) -> Expr:
    flat = over_atoms(value, lambda part: _bind(part, bindings, kind))
    return flat if type(flat) is Tuple else _bind(flat, bindings, kind)
