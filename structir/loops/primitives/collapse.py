"""Collapses two nested loops into one loop over their product."""

from __future__ import annotations

from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Element, For, Kernel, Local, LoopVariable, Scalar
from structir.ir.node import replace
from structir.loops.schedule.block_loops import without_blocks
from structir.loops.schedule.edits import Names, calculate, exchange, integer, substitute
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.nests import (
    depends_on,
    only_loop_in,
    refuse_dependent_bounds,
    refuse_jumps,
)
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import expression
from structir.loops.schedule.sizes import size


@primitive
def collapse(kernel: Kernel, loop: str) -> Kernel:
    """Collapses a loop and the loop perfectly nested in it into one loop.

    Loops over blocks and over the iterations of each block, as `split` creates them, become the
    loop over all blocks. Other loops must count from 0: accesses with a constant stride through
    both become accesses of `x.flat`; other uses of the two variables become a quotient and a
    remainder.
    """
    tree = loop_tree(kernel)
    outer = tree.loop(loop)
    inner = only_loop_in(outer)
    for each in (outer, inner):
        refuse_jumps(each)
    whole = without_blocks(tree, outer, inner)
    if whole is not None and not _uses(tree, inner, outer.variable):
        return exchange(kernel, outer, whole)
    refuse_dependent_bounds(outer, inner)
    counts = [_count(tree, each) for each in (outer, inner)]
    names = Names(tree)
    joined = LoopVariable(names.fresh(f"{loop}_{inner.variable.name}"), "int64")
    change = _Change(tree, (outer, inner), counts, joined)
    body = tuple([substitute(statement, change) for statement in inner.body])
    stop = calculate("mul", outer.stop, inner.stop)
    return exchange(kernel, outer, For(joined, integer(0), stop, 1, body))


def _uses(tree: LoopTree, loop: For, variable: Local) -> bool:
    """Whether the body of a loop uses a variable."""
    return any(depends_on(statement, variable) for statement in tree.within(loop.body))


def _count(tree: LoopTree, loop: For) -> Dim:
    """Returns the trip count of a loop from 0 in steps of 1; raises ScheduleError for others."""
    count = tree.trip_count(loop)
    if count is not None:
        return count
    raise refusal(
        "E1116",
        f"expected a loop from 0 to a size in steps of 1, found {loop.start} to {loop.stop} in "
        f"steps of {loop.step}",
        loop,
        help="collapse loops before they are split",
    )


class _Change:
    """Rewrites elements and the two loop variables in terms of the collapsed variable."""

    def __init__(
        self, tree: LoopTree, loops: tuple[For, For], counts: list[Dim], joined: LoopVariable
    ) -> None:
        self.tree, self.counts, self.joined, self.length = tree, counts, joined, loops[1].stop
        self.variables = [loop.variable for loop in loops]
        self.symbols = [tree.symbol(variable) for variable in self.variables]

    def __call__(self, part: Any) -> Scalar | None:
        if part is self.variables[0]:
            return calculate("floordiv", self.joined, self.length)
        if part is self.variables[1]:
            return calculate("mod", self.joined, self.length)
        return self.flat(part) if isinstance(part, Element) else None

    def flat(self, element: Element) -> Element | None:
        """Returns an access with constant stride through both loops as `x.flat[i]`; None for
        others."""
        position = self.tree.flat_index(element)
        outer = None if position is None else dims.linear(position, self.symbols[0])
        inner = None if outer is None else dims.linear(outer[1], self.symbols[1])
        if outer is None or inner is None:
            return None
        step, base = inner[0], expression(self.tree, inner[1])
        is_even = dims.equal(outer[0], step * self.counts[1]) is True
        depends = {s for dim in (step, inner[1]) for s in dims.syms(dim)} & set(self.symbols)
        if not is_even or base is None or depends or step == 0 or not self.tree.is_size(step):
            return None
        index = calculate("add", base, calculate("mul", size(step), self.joined))
        return replace(element, indices=(index,), flat=True)


collapse.example(
    """
@I.kernel
def scale(
    x: R.Tensor(("n", "m"), "float32"),
    b: R.Tensor(("m",), "float32"),
    out: R.Tensor(("n", "m"), "float32"),
):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        for j in range(m):
            out[i, j] = x[i, j] * b[j]
""",
    "i",
)
collapse.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i_0 in range(0, n, 64):
        for i in range(i_0, min(i_0 + 64, n)):
            out[i] = 2.0 * x[i]
""",
    "i_0",
)
