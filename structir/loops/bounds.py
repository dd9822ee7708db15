"""Bounds of indices over the iterations of loops, for all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import For
from structir.loops.loop_tree import LoopTree


def extremes(tree: LoopTree, index: Dim, loops: Sequence[For], upper: bool) -> list[Dim]:
    """Returns inclusive upper or lower bounds of an index over all iterations of some loops.

    The loops are ordered outermost first. The bounds are without their variables, and each holds.
    """
    bounds = [index]
    for loop in reversed(loops):
        bounds = [end for bound in bounds for end in _over_loop(tree, bound, loop, upper)]
    return bounds


def _over_loop(tree: LoopTree, bound: Dim, loop: For, upper: bool) -> Iterator[Dim]:
    symbol = tree.symbol(loop.variable)
    form = dims.linear(bound, symbol)
    if form is None:
        return
    factor, rest = form
    if factor == 0:
        yield rest
        return
    rises = dims.at_least(factor, 0)
    if not rises and not dims.at_least(0, factor):
        return
    takes_high = bool(rises) == upper
    shift = tree.shift(loop.variable)
    for end in tree.highs(loop) if takes_high else tree.lows(loop):
        yield rest + factor * (end - shift - (1 if takes_high else 0))


def surely_runs(tree: LoopTree, loop: For) -> bool:
    """Whether a loop has an iteration at all sizes."""
    first, last = (loop.start, loop.stop) if loop.step > 0 else (loop.stop, loop.start)
    low, high = tree.index(first), tree.index(last)
    return low is not None and high is not None and bool(dims.at_least(high - 1, low))


def same_range(tree: LoopTree, first: For, second: For) -> bool:
    """Whether two loops have provably the same iterations."""
    if first.step != second.step:
        return False
    pairs = ((first.start, second.start), (first.stop, second.stop))
    known = [(tree.index(a), tree.index(b)) for a, b in pairs]
    return all(a is not None and b is not None and dims.equal(a, b) is True for a, b in known)
