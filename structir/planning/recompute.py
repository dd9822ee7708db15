"""Rematerialization: selects values to recompute instead of keeping them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
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
from structir.opdef.memo import memoize
from structir.planning.storage import bytes_of, is_view_call, planned_call
from structir.projections.spec import IndexSpec

AGAIN = frozenset({Call, TupleGetItem, Tuple, Constant})  # values that may be computed again
MOST_SEGMENTS = 64
EXPENSIVE = (None, 16.0, 2.0)  # steps for a byte, from which a value is rather kept


@attrs.frozen(eq=False)
class Item:
    """One binding: the bytes of its value, the operations to compute it, and its operands."""

    binding: Binding
    bytes: int
    steps: int
    reads: tuple[int, ...]  # the items of the block that it reads
    again: bool  # whether it may be computed a second time
    stays: bool  # whether it is read after the block
    side: str = ""  # of a stretch to compute again that the program marks: "start" or "end"


@attrs.frozen(eq=False)
class RecomputePlan:
    """A block with some of its values computed again: its steps in order, each an item or a copy
    of one; and what that costs."""

    order: tuple[tuple[int, bool], ...]
    peak: int
    again: int  # steps that are taken a second time


def items_of(bindings: Sequence[Binding], after: set[Var], sizes: Mapping[Sym, int]) -> list[Item]:
    """Returns the bindings of a block with their costs at these sizes."""
    places = {binding.var: k for k, binding in enumerate(bindings)}
    found = []
    for binding in bindings:
        value = binding.value
        reads = [places[v] for v in variables_in((value, binding.var.struct_info)) if v in places]
        pure = isinstance(binding, VarBinding) and type(value) in AGAIN and is_pure_value(value)
        own = planned_call(binding) and not is_view_call(value)  # type: ignore[arg-type]
        info: Any = binding.var.struct_info
        known = own or (type(info) is TensorStructInfo and type(info.dims) is tuple and not reads)
        size = _number(bytes_of(info), sizes) if known and info.dtype else 0
        found.append(
            Item(
                binding,
                size,
                steps_of(value, sizes) if own else 0,
                tuple(dict.fromkeys(reads)),
                pure,
                binding.var in after,
                _side(value),
            )
        )
    return found


def _side(value: Any) -> str:
    definition: Any = value.op.definition if _is_op_call(value) else None
    return str(getattr(definition, "hooks", {}).get("checkpoint", ""))


def _is_op_call(value: Any) -> bool:
    return type(value) is Call and type(value.op) is Op


def steps_of(value: Expr, sizes: Mapping[Sym, int]) -> int:
    """Returns the number of iteration points of a call; without loops, of operand elements."""
    spec = _spec_of(value)
    if spec is None:
        infos = [arg.struct_info for arg in getattr(value, "args", ())]
        known = [i for i in infos if type(i) is TensorStructInfo and type(i.dims) is tuple]
        return sum(_number(_elements(info.dims), sizes) for info in known)
    total = 0
    for statement in spec.statements:
        index_vars = (*statement.parallel, *statement.reduce, *statement.whole)
        total += _number(_elements([spec.extents[index_var] for index_var in index_vars]), sizes)
    return total


def _number(dim: Dim, sizes: Mapping[Sym, int]) -> int:
    """Returns the value of a dim; 0 for one that is invalid at these sizes."""
    try:
        return max(evaluate(dim, sizes), 0)
    except DiagnosticError:
        return 0


def _elements(dims: Any) -> Any:
    count: Any = 1
    for dim in dims:
        count = count * dim
    return count


def _spec_of(value: Any) -> IndexSpec | None:
    if not _is_op_call(value):
        return None
    try:
        spec: IndexSpec | None = memoize(_index_spec, value)
    except DiagnosticError:  # reported at run time
        return None
    return spec


def _index_spec(call: Call) -> Any:
    return call.op.definition.index_spec(call)  # type: ignore[attr-defined]


def marked_plan(items: Sequence[Item]) -> RecomputePlan | None:
    """The plan in which exactly what the program marks is computed again; None where there are no
    marks, or nothing between them is read late."""
    ends = [k for k, item in enumerate(items) if item.side == "end"]
    if not ends:
        return None
    inside: set[int] = set()
    todo = [read for k in ends for read in items[k].reads]
    while todo:
        k = todo.pop()
        if k not in inside and items[k].side != "end":
            inside.add(k)
            todo += () if items[k].side == "start" else items[k].reads
    inside = {k for k in inside if items[k].again and not items[k].stays}
    plan = _plan(items, ends[-1], set(range(ends[-1] + 1)) - inside)
    return plan if any(copy for _, copy in plan.order) else None


def best_plan(items: Sequence[Item], budget: int, work: float) -> RecomputePlan | None:
    """The plan that keeps within a budget of bytes and takes the fewest steps again; where there is
    none, or no budget is given, the one of the least peak among those that take at most so much of
    the block's steps again. None where that is the block as it is."""
    plain = [(k, False) for k in range(len(items))]
    live = list(live_bytes(items, plain))
    if not live or (budget and max(live) <= budget):
        return None
    middle = live.index(max(live))
    most = work * sum(item.steps for item in items)
    plans = [_plan(items, middle, kept) for kept in _candidates(items, middle)]
    plans = [plan for plan in plans if plan.again <= most and plan.peak < max(live)]
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
        k, copy = made = order[step]
        end = len(order) if items[k].stays and not copy else last.get(made, step)
        last[made] = end
        shared = step if items[k].bytes else end
        for read in items[k].reads:
            source = (read, copies.get(read, step) < step)  # the copy, once there is one
            last[source] = max(last.get(source, -1), shared)
    return last


def _plan(items: Sequence[Item], middle: int, kept: set[int]) -> RecomputePlan:
    """The block where all that the second half needs of the first is computed again, but for what
    is kept."""
    order = [(k, False) for k in range(middle + 1)]
    done: set[int] = set()
    for k in range(middle + 1, len(items)):
        todo = [read for read in reversed(items[k].reads) if read <= middle]
        while todo:
            read = todo[-1]
            waiting = [r for r in items[read].reads if r not in done and r not in kept]
            if read in kept or read in done:
                todo.pop()
            elif waiting:
                todo += waiting
            else:
                done.add(todo.pop())
                order.append((read, True))
        order.append((k, False))
    again = sum(items[k].steps for k, copy in order if copy)
    return RecomputePlan(tuple(order), max(live_bytes(items, order)), again)


def _candidates(items: Sequence[Item], middle: int) -> Iterator[set[int]]:
    """Sets of values to keep from the first half: those that cross some cuts, and those that are
    expensive to make again."""
    first = range(middle + 1)
    never = {k for k in first if items[k].stays or not items[k].again}
    crossing = _crossing(items, middle)
    count = 1
    while count <= min(MOST_SEGMENTS, middle + 1):
        cut = {k for place in _cuts(items, crossing, count) for k in crossing[place]}
        for limit in EXPENSIVE:
            dear = set() if limit is None else {k for k in first if _is_dear(items[k], limit)}
            yield never | cut | dear
        count += 1 + count // 4


def _is_dear(item: Item, limit: float) -> bool:
    return item.bytes > 0 and item.steps / item.bytes > limit


def _crossing(items: Sequence[Item], middle: int) -> list[set[int]]:
    """For each place of the first half, the values made up to there that it reads after it."""
    last = {k: k for k in range(middle + 1)}
    for k in range(middle + 1):
        for read in items[k].reads:
            last[read] = k
    found: list[set[int]] = []
    open_: set[int] = set()
    for k in range(middle + 1):
        open_ = {o for o in open_ if last[o] > k} | ({k} if last[k] > k else set())
        found.append(set(open_))
    return found


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
