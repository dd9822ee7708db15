"""Groups consecutive pure bindings into dataflow blocks."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from structir.analysis.purity import is_pure_value
from structir.analysis.substitution import Substitution
from structir.analysis.variables import variables_in
from structir.ir.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    If,
    SeqExpr,
    Var,
)
from structir.ir.node import replace
from structir.passes.base import function_pass


@function_pass(aliases=("to_dataflow",), preserves=("normalise",))
def convert_to_dataflow(function: Function, *, min_size: int = 2) -> Function:
    """Puts runs of at least `min_size` pure bindings without branches into dataflow blocks.

    Values without uses outside their block become local to it.
    """
    body = _convert(function.body, min_size)
    return function if body is function.body else replace(function, body=body)


def _convert(seq: SeqExpr, min_size: int) -> SeqExpr:
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        blocks += [block] if isinstance(block, DataflowBlock) else _split(block, min_size)
    if all(map(_is, blocks, seq.blocks)) and len(blocks) == len(seq.blocks):
        return seq
    old = set(seq.blocks)
    new = [block for block in blocks if block not in old]
    local = _local_vars(replace(seq, blocks=tuple(blocks)), new)
    names: dict[Var, Expr] = {var: DataflowVar(var.name, var.struct_info) for var in local}
    renamed = Substitution(names)
    return replace(seq, blocks=tuple([_rename(block, renamed) for block in blocks]))


def _split(block: BindingBlock, min_size: int) -> list[BindingBlock]:
    """Splits a plain block; the long runs of pure bindings become dataflow blocks."""
    parts: list[tuple[bool, list[Binding]]] = []
    for pure, run in groupby(block.bindings, key=_is_dataflow):
        bindings = list(run)
        long = pure and len(bindings) >= min_size
        if parts and not long and not parts[-1][0]:
            parts[-1][1].extend(bindings)
        else:
            parts.append((long, bindings))
    if not any(long for long, _ in parts):
        return [block]
    return [(DataflowBlock if long else BindingBlock)(tuple(run)) for long, run in parts]


def _is_dataflow(binding: Binding) -> bool:
    value = binding.value
    return not isinstance(value, If | Function) and is_pure_value(value)


def _local_vars(seq: SeqExpr, new: list[BindingBlock]) -> set[Var]:
    """Returns the variables of new blocks that only their own block uses."""
    home = {
        b.var: block for block in new if isinstance(block, DataflowBlock) for b in block.bindings
    }
    local = set(home)
    for block in seq.blocks:
        local -= {v for v in variables_in(block) if v in home and home[v] is not block}
    infos = {b.var.struct_info for block in new for b in block.bindings}
    for info in infos:  # an exported variable's StructInfo may mention a shape variable
        local -= variables_in(info).keys()
    return local - variables_in((seq.body, seq.struct_info)).keys()


def _rename(block: BindingBlock, names: Substitution) -> BindingBlock:
    bindings = []
    for binding in block.bindings:
        value = names.part(binding.value)
        var: Any = names.variables.get(binding.var, binding.var)
        same = value is binding.value and var is binding.var
        bindings.append(binding if same else replace(binding, var=var, value=value))
    return replace(block, bindings=tuple(bindings))


def _is(a: object, b: object) -> bool:
    return a is b
