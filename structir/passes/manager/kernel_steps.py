"""Bounds the time of runs that interpret kernels, whose statements run for each element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from structir.analysis.variables import walk_values
from structir.errors import StructIRError
from structir.ir.dims import Dim
from structir.ir.expr import Call, Function, GlobalVar
from structir.ir.module import IRModule
from structir.projections.execution_cost import execution_cost

# A step takes about 5 us.
MOST_STEPS = 1 << 14  # of one run, where there are many runs
MOST_LONG_STEPS = 1 << 19  # of one run, where there are few
MANY = 8  # sizes may multiply the steps at sizes of 1 by it

Loop = tuple[tuple[Dim, ...], float]  # the extents, and the operations of an iteration


def loops_of(module: IRModule, function: Function) -> Counter[Loop]:
    """Returns how often a run of a function executes each loop nest, as kernels would."""
    known: dict[str, Counter[Loop]] = {}

    def count(function: Function) -> Counter[Loop]:
        loops: Counter[Loop] = Counter()
        for node in walk_values(function):
            if type(node) is not Call:
                continue
            name = node.op.name if type(node.op) is GlobalVar else ""
            callee = module.functions.get(name)
            if not isinstance(callee, Function):
                loops.update(_loops_of_call(node, module))
                continue
            if name not in known:
                known[name] = Counter()  # a recursive call counts once
                known[name] = count(callee)
            loops.update(known[name])
        return loops

    return count(function)


def _loops_of_call(call: Call, module: IRModule) -> Iterator[Loop]:
    try:
        cost = execution_cost(call, module)
    except StructIRError:
        return
    for term in cost.terms:
        yield term.extents, max(1, term.per_point)


def steps(loops: Counter[Loop], size_of: Callable[[Dim], int]) -> int:
    """Returns the operations of loop nests at some sizes."""
    total = 0.0
    for (extents, operations), count in loops.items():
        points = 1
        for extent in extents:
            points *= size_of(extent)
        total += count * operations * points
    return int(total)


def is_long(steps: int, least: int) -> bool:
    """Whether a run takes too long, given its steps and those at sizes of 1."""
    return steps > max(MOST_STEPS, min(MANY * least, MOST_LONG_STEPS))
