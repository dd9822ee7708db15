"""Rematerialization: selects values to recompute instead of keeping them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import attrs

from structir.analysis.purity import is_pure_value
from structir.analysis.variables import variables_in
from structir.errors import DiagnosticError
from structir.ir.dims import Dim, Sym, evaluate
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    Expr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.op import Op
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.memo import spec_of
from structir.planning.storage import bytes_of, is_view_call, planned_call

RECOMPUTABLE = frozenset({Call, TupleGetItem, Tuple, Constant})
MOST_SEGMENTS = 64
EXPENSIVE = (None, 16.0, 2.0)  # steps per byte above which values are retained; None: no limit


@attrs.frozen(eq=False)
class Item:
    """One binding: the bytes of its value, the operations to compute it, and its operands."""

    binding: Binding
    bytes: int
    steps: int
    reads: tuple[int, ...]  # indices of the items that it reads
    again: bool  # whether it may be recomputed
    stays: bool  # whether it is live after the block
    side: str = ""  # "start" or "end" of a region that the program marks for recomputation


@attrs.frozen(eq=False)
class RecomputePlan:
    """A block with recomputed values: its order, peak memory and recomputed steps.

    Each step of `order` is the index of an item, and whether it is a copy.
    """

    order: tuple[tuple[int, bool], ...]
    peak: int
    again: int  # recomputed steps


def items_of(bindings: Sequence[Binding], after: set[Var], sizes: Mapping[Sym, int]) -> list[Item]:
    """Returns the bindings of a block with their costs at these sizes."""
    index_of = {binding.var: k for k, binding in enumerate(bindings)}
    items = []
    for binding in bindings:
        value = binding.value
        reads = [
            index_of[v] for v in variables_in((value, binding.var.struct_info)) if v in index_of
        ]
        pure = (
            isinstance(binding, VarBinding) and type(value) in RECOMPUTABLE and is_pure_value(value)
        )
        allocates = planned_call(binding) and not is_view_call(value)  # type: ignore[arg-type]
        info: Any = binding.var.struct_info
        has_size = allocates or (
            type(info) is TensorStructInfo and type(info.dims) is tuple and not reads
        )
        size = _number(bytes_of(info), sizes) if has_size and info.dtype else 0
        items.append(
            Item(
                binding,
                size,
                steps_of(value, sizes) if allocates else 0,
                tuple(dict.fromkeys(reads)),
                pure,
                binding.var in after,
                _side(value),
            )
        )
    return items


def _side(value: Any) -> str:
    definition: Any = value.op.definition if _is_op_call(value) else None
    return str(getattr(definition, "hooks", {}).get("checkpoint", ""))


def _is_op_call(value: Any) -> bool:
    return type(value) is Call and type(value.op) is Op


def steps_of(value: Expr, sizes: Mapping[Sym, int]) -> int:
    """Returns the number of iteration points of a call; without loops, of operand elements."""
    spec = spec_of(value)
    if spec is None:
        infos = [arg.struct_info for arg in getattr(value, "args", ())]
        tensor_infos = [i for i in infos if type(i) is TensorStructInfo and type(i.dims) is tuple]
        return sum(_number(prod(info.dims), sizes) for info in tensor_infos)
    total = 0
    for statement in spec.statements:
        index_vars = (*statement.parallel, *statement.reduce, *statement.whole)
        total += _number(prod([spec.extents[index_var] for index_var in index_vars]), sizes)
    return total


def _number(dim: Dim, sizes: Mapping[Sym, int]) -> int:
    """Returns the value of a dim; 0 for one that is invalid at these sizes."""
    try:
        return max(evaluate(dim, sizes), 0)
    except DiagnosticError:
        return 0


def marked_plan(items: Sequence[Item]) -> RecomputePlan | None:
    """Returns the plan that recomputes exactly the regions that the program marks.

    Returns None if there are no marks, or no value between them has a late use.
    """
    ends = [k for k, item in enumerate(items) if item.side == "end"]
    if not ends:
        return None
    region: set[int] = set()
    worklist = [read for k in ends for read in items[k].reads]
    while worklist:
        k = worklist.pop()
        if k not in region and items[k].side != "end":
            region.add(k)
            worklist += () if items[k].side == "start" else items[k].reads
    region = {k for k in region if items[k].again and not items[k].stays}
    plan = _plan(items, ends[-1], set(range(ends[-1] + 1)) - region)
    return plan if any(copy for _, copy in plan.order) else None


def best_plan(items: Sequence[Item], budget: int, work: float) -> RecomputePlan | None:
    """Returns the plan with the fewest recomputed steps within a budget of bytes.

    If there is none, or no budget, returns the plan of least peak that recomputes at most the
    fraction `work` of the steps. Returns None if the original block is best.
    """
    original = [(k, False) for k in range(len(items))]
    live = list(live_bytes(items, original))
    if not live or (budget and max(live) <= budget):
        return None
    middle = live.index(max(live))
    max_steps = work * sum(item.steps for item in items)
    plans = [_plan(items, middle, retained) for retained in _candidates(items, middle)]
    plans = [plan for plan in plans if plan.again <= max_steps and plan.peak < max(live)]
    within = [plan for plan in plans if budget and plan.peak <= budget]
    if within:
        return min(within, key=lambda plan: (plan.again, plan.peak))
    return min(plans, key=lambda plan: (plan.peak, plan.again), default=None)


def live_bytes(items: Sequence[Item], order: Sequence[tuple[int, bool]]) -> Iterator[int]:
    """Yields the bytes of live values at each step."""
    last = _last_reads(items, order)
    ending: dict[int, int] = {}
    live = 0
    for step, (k, _) in enumerate(order):
        live += items[k].bytes
        yield live
        end = last.get(order[step], step)
        ending[end] = ending.get(end, 0) + items[k].bytes
        live -= ending.pop(step, 0)


def _last_reads(
    items: Sequence[Item], order: Sequence[tuple[int, bool]]
) -> dict[tuple[int, bool], int]:
    """Returns the last use of each value, through possible views."""
    copies = {k: step for step, (k, copy) in enumerate(order) if copy}
    last: dict[tuple[int, bool], int] = {}
    for step in reversed(range(len(order))):
        k, copy = value = order[step]
        end = len(order) if items[k].stays and not copy else last.get(value, step)
        last[value] = end
        shared = step if items[k].bytes else end
        for read in items[k].reads:
            source = (read, copies.get(read, step) < step)  # the copy, once there is one
            last[source] = max(last.get(source, -1), shared)
    return last


def _plan(items: Sequence[Item], middle: int, retained: set[int]) -> RecomputePlan:
    """Returns the plan that recomputes the values of the first half that the second half uses,
    except for the retained ones.
    """
    order = [(k, False) for k in range(middle + 1)]
    copied: set[int] = set()
    for k in range(middle + 1, len(items)):
        worklist = [read for read in reversed(items[k].reads) if read <= middle]
        while worklist:
            read = worklist[-1]
            pending = [r for r in items[read].reads if r not in copied and r not in retained]
            if read in retained or read in copied:
                worklist.pop()
            elif pending:
                worklist += pending
            else:
                copied.add(worklist.pop())
                order.append((read, True))
        order.append((k, False))
    again = sum(items[k].steps for k, copy in order if copy)
    return RecomputePlan(tuple(order), max(live_bytes(items, order)), again)


def _candidates(items: Sequence[Item], middle: int) -> Iterator[set[int]]:
    """Yields sets of values of the first half to retain: those live across cuts, and those that are
    expensive to recompute.
    """
    first = range(middle + 1)
    retained = {k for k in first if items[k].stays or not items[k].again}
    crossing = _crossing(items, middle)
    count = 1
    while count <= min(MOST_SEGMENTS, middle + 1):
        cut = {k for position in _cuts(items, crossing, count) for k in crossing[position]}
        for limit in EXPENSIVE:
            expensive = (
                set() if limit is None else {k for k in first if _is_expensive(items[k], limit)}
            )
            yield retained | cut | expensive
        count += 1 + count // 4


def _is_expensive(item: Item, limit: float) -> bool:
    return item.bytes > 0 and item.steps / item.bytes > limit


def _crossing(items: Sequence[Item], middle: int) -> list[set[int]]:
    """Returns the values that are live after each item of the first half."""
    last = {k: k for k in range(middle + 1)}
    for k in range(middle + 1):
        for read in items[k].reads:
            last[read] = k
    crossing: list[set[int]] = []
    live: set[int] = set()
    for k in range(middle + 1):
        live = {o for o in live if last[o] > k} | ({k} if last[k] > k else set())
        crossing.append(set(live))
    return crossing


def _cuts(items: Sequence[Item], crossing: Sequence[set[int]], count: int) -> list[int]:
    """Returns cuts of the first half into parts of similar size, where few bytes cross."""
    sums = list(accumulate(item.bytes for item in items[: len(crossing)]))
    part = sums[-1] / count
    cuts = []
    for number in range(1, count):
        near = [k for k, total in enumerate(sums) if abs(total - number * part) <= part / 3] or [
            min(range(len(sums)), key=lambda k: abs(sums[k] - number * part))
        ]
        cuts.append(min(near, key=lambda k: sum(items[c].bytes for c in crossing[k])))
    return cuts
