"""Makes values of dataflow blocks local that nothing outside their block uses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

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
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import TensorStructInfo


def with_local_values(seq: SeqExpr, candidates: Collection[BindingBlock]) -> SeqExpr:
    """Returns a sequence in which surplus outputs of the candidate blocks are local."""
    local = _local_vars(seq, candidates)
    if not local:
        return seq
    names: dict[Var, Expr] = {var: DataflowVar(var.name, var.struct_info) for var in local}
    renamed = Substitution(names)
    return replace(seq, blocks=tuple([_rename(block, renamed) for block in seq.blocks]))


def without_surplus_outputs(function: Function) -> Function:
    """Returns a function, and the functions and branches in it, without unused outputs."""
    body = _sequence(function.body)
    return function if body is function.body else replace(function, body=body)


def _sequence(seq: SeqExpr) -> SeqExpr:
    blocks = [_block(block) for block in seq.blocks]
    if any(new is not old for new, old in zip(blocks, seq.blocks, strict=True)):
        seq = replace(seq, blocks=tuple(blocks))
    candidates = [block for block in seq.blocks if isinstance(block, DataflowBlock)]
    return with_local_values(seq, candidates) if candidates else seq


def _block(block: BindingBlock) -> BindingBlock:
    bindings = tuple([_nested(binding) for binding in block.bindings])
    same = all(new is old for new, old in zip(bindings, block.bindings, strict=True))
    return block if same else replace(block, bindings=bindings)


def _nested(binding: Binding) -> Binding:
    value = binding.value
    if isinstance(value, Function):
        function = without_surplus_outputs(value)
        return binding if function is value else replace(binding, value=function)
    if not isinstance(value, If):
        return binding
    then, other = _sequence(value.true_branch), _sequence(value.false_branch)
    if then is value.true_branch and other is value.false_branch:
        return binding
    return replace(binding, value=replace(value, true_branch=then, false_branch=other))


def _local_vars(seq: SeqExpr, candidates: Collection[BindingBlock]) -> set[Var]:
    """Returns the variables of the blocks that only their own block uses.

    A block keeps its outputs if none of them has uses: all of it is unused. The text of a condition
    has no variable, so it is never an output.
    """
    home = {
        b.var: block
        for block in candidates
        if isinstance(block, DataflowBlock)
        for b in block.bindings
        if type(b.var) is not DataflowVar
    }
    exporting = set(home.values())
    infos = {b.var.struct_info for block in exporting for b in block.bindings if _has_vars(b.var)}
    local = home.keys() - variables_in((seq.body, seq.struct_info, tuple(infos)))
    for block in seq.blocks:
        if any(home[var] is not block for var in local):  # else the uses in it are irrelevant
            local -= {v for v in variables_in(block) if v in home and home[v] is not block}
    used = {block for var, block in home.items() if var not in local}
    checks = {b.var for block in exporting for b in block.bindings if conditions_of(b)}
    return {var for var in local if home[var] in used or var in checks}


def _has_vars(var: Var) -> bool:
    """Returns whether the StructInfo of a variable may mention a shape variable."""
    info = var.struct_info
    return type(info) is not TensorStructInfo or type(info.dims) is not tuple


def _rename(block: BindingBlock, names: Substitution) -> BindingBlock:
    bindings = []
    for binding in block.bindings:
        value = names.part(binding.value)
        var: Any = names.variables.get(binding.var, binding.var)
        same = value is binding.value and var is binding.var
        bindings.append(binding if same else replace(binding, var=var, value=value))
    return replace(block, bindings=tuple(bindings))
