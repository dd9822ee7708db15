"""Conditionals whose branches have results of different shapes: they are decided before a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from structir.analysis.variables import symbols_in
from structir.batching.expansion_values import without_dataflow
from structir.batching.refinement import Refinement
from structir.distributed.host_values import HostFunction, binds_plain_values
from structir.distributed.tensor_fields import tensors
from structir.ir.binding_dims import standing_alone
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TupleStructInfo


def open_branch(function: Function) -> Any:
    """Returns the first binding of a conditional whose condition is computed before a plan; None if
    there is none."""
    known = bound_by_arguments(function.params)
    for binding in function.body.bindings():
        if is_open_branch(binding, known):
            return binding
        known |= _bound_by(binding)
    return None


def is_open_branch(binding: Binding, known: Set[Any]) -> bool:
    """Whether the condition of a conditional is computed before a plan: its result or a value of
    its branches has unknown sizes, or its branches compute scalars or shapes for their calls."""
    value = binding.value
    if not isinstance(value, If):
        return False
    return is_late(binding.var.struct_info, known) or _binds_open_values(value, known)


def _binds_open_values(value: If, known: Set[Any]) -> bool:
    """Whether a branch binds sizes, or computes values that its shards would have to receive."""
    if binds_plain_values(value):
        return True
    bindings = [b for s in (value.true_branch, value.false_branch) for b in s.bindings()]
    for binding in bindings:
        nested = binding.value
        if is_late(binding.var.struct_info, known) or _bound_by(binding) - known:
            return True
        if isinstance(nested, If) and _binds_open_values(nested, known):
            return True
    return False


def is_late(info: StructInfo | None, known: Set[Any]) -> bool:
    """Whether a tensor of a value has no dtype, or a size that follows from no known variable."""
    parts = tuple(tensors(info))
    if any(not isinstance(tensor.dims, tuple) or tensor.element is None for tensor in parts):
        return True
    return not symbols_in(parts).keys() <= known


def bound_by_arguments(params: Iterable[Var]) -> set[Any]:
    """Returns the variables that arguments determine: those of a StructInfo subclass of a user only
    where it has `parts`."""
    return set(standing_alone([i for p in params for i in _runtime_infos(p.struct_info)]))


def _bound_by(binding: Binding) -> set[Any]:
    """Returns the variables that a match_cast binds."""
    return set(standing_alone([binding.struct_info])) if isinstance(binding, MatchCast) else set()


def _runtime_infos(info: StructInfo) -> Iterator[StructInfo]:
    """Yields the StructInfos against which an argument is checked."""
    if isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from _runtime_infos(field)
    elif hasattr(info, "parts"):
        yield from _runtime_infos(info.parts())
    elif type(info).__module__.startswith("structir."):
        yield info


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
