"""Recomputes values instead of keeping them live (gradient checkpointing)."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in, variables_in
from structir.errors import StructIRError
from structir.ir.dims import Sym
from structir.ir.expr import BindingBlock, Function, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.passes.base import Fraction, NonNegative, module_pass, note
from structir.passes.bind_symbolic_vars import check_dims, read_sizes
from structir.planning.recompute import (
    Item,
    RecomputePlan,
    best_plan,
    items_of,
    live_bytes,
    marked_plan,
)

DEFAULT_SIZE = 128  # for dims without a size in `sizes`


@module_pass(idempotent="values that remain after one run may be worth recomputing")
def remat(
    module: IRModule,
    *,
    function: str = "",
    budget: NonNegative = 0,
    work: Fraction = 0.5,
    sizes: str = "",
) -> IRModule:
    """Recomputes values before late uses, such as those of a backward pass, to reduce live memory
    (gradient checkpointing); in one function or in all.

    With a `budget` in bytes, it recomputes as little as the budget needs. Without one, or if the
    budget cannot be met, it minimizes the peak while recomputing at most the fraction `work` of all
    steps. Memory and steps are estimated at `sizes`, as in "n=32 m=64"; other dims count as 128. A
    program that marks the start and end of regions to recompute gets exactly these. Run no
    common_subexpression_elimination afterwards: it would undo the result.
    """
    if function and not isinstance(module.functions.get(function), Function):
        raise StructIRError(f"remat: no function `{function}` in module", code="E1002")
    chosen = {
        name: value
        for name, value in module.functions.items()
        if isinstance(value, Function) and function in ("", name)
    }
    chosen_sizes = read_sizes(sizes)
    dims = {symbol.name for value in chosen.values() for symbol in symbols_in(value)}
    check_dims(chosen_sizes, sorted(dims))
    rewritten = {
        name: _recompute(name, f, chosen_sizes, budget, work) for name, f in chosen.items()
    }
    if all(rewritten[name] is value for name, value in chosen.items()):
        return module
    return module.with_functions({**module.functions, **rewritten})


def _recompute(
    name: str, function: Function, chosen_sizes: Mapping[str, int], budget: int, work: float
) -> Function:
    symbols = [symbol for symbol in symbols_in(function) if symbol.name in chosen_sizes]
    numbers = _Sizes({symbol: chosen_sizes[symbol.name] for symbol in symbols})
    blocks = list(function.body.blocks)
    after = set(variables_in(function.body.body))
    for index in reversed(range(len(blocks))):
        block = blocks[index]
        items = items_of(block.bindings, after, numbers)
        after |= variables_in(block).keys()
        marked = any(item.side for item in items)
        plan = marked_plan(items) if marked else best_plan(items, budget, work)
        if plan is not None:
            note(f"{name}: {_summary(items, plan)}")
            blocks[index] = _reorder(block, items, plan)
    if all(new is old for new, old in zip(blocks, function.body.blocks, strict=True)):
        return function
    return replace(function, body=replace(function.body, blocks=tuple(blocks)))


class _Sizes(dict[Sym, int]):
    """Sizes by symbol, with a default for others."""

    def __missing__(self, symbol: Sym) -> int:
        return DEFAULT_SIZE


def _summary(items: list[Item], plan: RecomputePlan) -> str:
    before = max(live_bytes(items, [(k, False) for k in range(len(items))]))
    steps = sum(item.steps for item in items)
    part = plan.again / steps if steps else 0
    return f"peak {plan.peak} bytes, was {before}; {part:.0%} of the steps recomputed"


def _reorder(block: BindingBlock, items: list[Item], plan: RecomputePlan) -> BindingBlock:
    """Returns the block's bindings in the order of a plan; uses after a copy read the copy."""
    late = Substitution()
    bindings = []
    for k, copy in plan.order:
        binding = items[k].binding
        rewritten = late.binding(binding)
        if copy:
            kind: type[Var] = type(binding.var)
            var = kind(rewritten.var.name, rewritten.var.struct_info, rewritten.var.span)
            late.variables[binding.var] = var
            rewritten = replace(rewritten, var=var)
        bindings.append(rewritten)
    return replace(block, bindings=tuple(bindings))
