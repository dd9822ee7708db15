"""Computing values a second time instead of keeping them."""

from __future__ import annotations

from collections.abc import Mapping

from structir.analysis.substitution import Substitution
from structir.analysis.variables import symbols_in, variables_in
from structir.errors import StructIRError
from structir.ir.dims import Sym
from structir.ir.expr import BindingBlock, Function, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.passes.base import module_pass, note
from structir.passes.bind_symbolic_vars import read_sizes
from structir.planning.recompute import (
    Item,
    RecomputePlan,
    best_plan,
    items_of,
    live_bytes,
    marked_plan,
)

TAKEN = 128  # for sizes that are not told


@module_pass(idempotent="what is left after one round may be worth computing again, too")
def remat(
    module: IRModule,
    *,
    function: str = "",
    budget: int = 0,
    work: float = 0.5,
    sizes: str = "",
) -> IRModule:
    """Compute values again where they are needed late, as the way back of a gradient needs those of
    the way there, so that fewer are kept (gradient checkpointing); in one function or in all.

    With a `budget` of bytes for the values inside, as little is computed again as keeps within it.
    Without one, or where that cannot be, the peak is made as low as it gets while at most the part
    `work` of all steps is taken again. Memory and steps are those at `sizes`, as in "n=32 m=64";
    sizes that are not told are taken as 128. Where a program marks the start and the end of what is
    to be computed again, that is done, and no more. Sharing equal values afterwards would undo it.
    """
    if function and not isinstance(module.functions.get(function), Function):
        raise StructIRError(f"the module has no function {function} to compute values of again")
    chosen = {
        name: value
        for name, value in module.functions.items()
        if isinstance(value, Function) and function in ("", name)
    }
    told = read_sizes(sizes)
    known = {symbol.name for value in chosen.values() for symbol in symbols_in(value)}
    if unknown := sorted(told.keys() - known):
        raise StructIRError(f"there is no dim {', '.join(unknown)}")
    made = {name: _recomputing(name, f, told, budget, work) for name, f in chosen.items()}
    if all(made[name] is value for name, value in chosen.items()):
        return module
    return module.with_functions({**module.functions, **made})


def _recomputing(
    name: str, function: Function, told: Mapping[str, int], budget: int, work: float
) -> Function:
    symbols = [symbol for symbol in symbols_in(function) if symbol.name in told]
    numbers = _Sizes({symbol: told[symbol.name] for symbol in symbols})
    blocks = list(function.body.blocks)
    after = set(variables_in(function.body.body))
    for place in reversed(range(len(blocks))):
        block = blocks[place]
        items = items_of(block.bindings, after, numbers)
        after |= variables_in(block).keys()
        marked = any(item.side for item in items)
        plan = marked_plan(items) if marked else best_plan(items, budget, work)
        if plan is not None:
            note(f"{name}: {_told(items, plan)}")
            blocks[place] = _ordered(block, items, plan)
    if all(new is old for new, old in zip(blocks, function.body.blocks, strict=True)):
        return function
    return replace(function, body=replace(function.body, blocks=tuple(blocks)))


class _Sizes(dict[Sym, int]):
    """Sizes by their symbols, those that are not told as well."""

    def __missing__(self, symbol: Sym) -> int:
        return TAKEN


def _told(items: list[Item], plan: RecomputePlan) -> str:
    before = max(live_bytes(items, [(k, False) for k in range(len(items))]))
    steps = sum(item.steps for item in items)
    part = plan.again / steps if steps else 0
    return f"at most {plan.peak} bytes live, not {before}, for {part:.0%} of the steps again"


def _ordered(block: BindingBlock, items: list[Item], plan: RecomputePlan) -> BindingBlock:
    """The block's bindings in the order of a plan; from a copy on, the copy is what is read."""
    late = Substitution()
    bindings = []
    for k, copy in plan.order:
        binding = items[k].binding
        made = late.binding(binding)
        if copy:
            kind: type[Var] = type(binding.var)
            var = kind(made.var.name, made.var.struct_info, made.var.span)
            late.variables[binding.var] = var
            made = replace(made, var=var)
        bindings.append(made)
    return replace(block, bindings=tuple(bindings))
