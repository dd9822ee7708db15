"""Conditionals whose branches have results of different shapes: they are decided before a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from structir.batching.expansion_values import without_dataflow
from structir.batching.refinement import Refinement
from structir.distributed.host_values import HostFunction, binds_plain_values
from structir.ir.expr import Binding, BindingBlock, Function, If, SeqExpr, VarBinding
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo


def open_branch(function: Function) -> Any:
    """Returns the first binding of a conditional with a tensor of unknown sizes or with a ragged
    axis, or whose branches compute scalars or shapes for their calls; None if there is none."""
    for binding in function.body.bindings():
        value = binding.value
        if not isinstance(value, If):
            continue
        if has_unknown_size(binding.var.struct_info) or binds_plain_values(value):
            return binding
    return None


def has_unknown_size(info: StructInfo | None) -> bool:
    """Whether a value has a tensor without a size for each axis."""
    if isinstance(info, TupleStructInfo):
        return any(map(has_unknown_size, info.fields))
    return isinstance(info, TensorStructInfo) and not isinstance(info.dims, tuple)


def condition_of(
    module: IRModule,
    name: str,
    branch: VarBinding,
    values: Sequence[Any],
    sizes: Mapping[str, Any],
) -> bool:
    """Returns the condition of a conditional for arguments; only what it depends on is computed."""
    function: Any = module.functions[name]
    bindings = list(function.body.bindings())
    before = bindings[: next(k for k, b in enumerate(bindings) if b.var is branch.var)]
    value: Any = branch.value
    condition = HostFunction.of(module, function.params, before, (value.cond,))
    return bool(condition(values, sizes)[0])


class _ChosenBranch(Refinement):
    """Rebuilds a function with one branch in place of a conditional."""

    def __init__(self, branch: VarBinding, side: bool) -> None:
        super().__init__()
        self.branch, self.side = branch, side

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block with the bindings of the branch."""
        bindings = [new for binding in block.bindings for new in self.bindings(binding)]
        return replace(block, bindings=tuple(bindings))

    def bindings(self, binding: Binding) -> Sequence[Binding]:
        """Returns the bindings in place of one."""
        if binding.var is not self.branch.var:
            return [self.binding(binding)]
        value: Any = self.branch.value
        side: SeqExpr = value.true_branch if self.side else value.false_branch
        inner = [new for each in side.bindings() for new in self.bindings(each)]
        return [*inner, self.binding(VarBinding(binding.var, side.body, binding.span))]


def with_branch(function: Function, branch: VarBinding, side: bool) -> Function:
    """Returns a function with one branch in place of a conditional."""
    return _ChosenBranch(branch, side).function(function)


def in_plain_blocks(module: IRModule, name: str) -> IRModule:
    """Returns a module whose function has no dataflow blocks, as branches have none."""
    function: Any = module.functions[name]
    return module.with_functions({**module.functions, name: without_dataflow(function)})
