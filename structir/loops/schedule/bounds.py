"""Bounds of index expressions over the iterations of loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import Element, For
from structir.loops.schedule.loop_tree import LoopTree


def extremes(tree: LoopTree, index: Dim, loops: Sequence[For], upper: bool) -> list[Dim]:
    """Returns inclusive upper or lower bounds of an index over all iterations of some loops.

    `loops` are outermost first. Each bound holds, and none mentions the variables of these loops.
    """
    bounds = [index]
    for loop in reversed(loops):
        symbol, remaining = tree.symbol(loop.variable), list[Dim]()
        for bound in bounds:
            remaining += _extremes_over(tree, bound, loop, symbol, upper)
        bounds = remaining
    return bounds


def _extremes_over(
    tree: LoopTree, bound: Dim, loop: For, symbol: Sym, upper: bool
) -> Iterator[Dim]:
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
    for end in tree.highs(loop) if takes_high else tree.lows(loop):
        yield rest + factor * (end - _distance(tree, loop, end) if takes_high else end)


def _distance(tree: LoopTree, loop: For, end: Dim) -> int:
    """Returns a lower bound of the distance from the last value of a loop variable to an upper
    end: the step if the iterations end exactly there, else 1."""
    start = tree.index(loop.start) if loop.step > 1 else None
    is_exact = start is not None and dims.equal(dims.floormod(end - start, loop.step), 0) is True
    return loop.step if is_exact else 1


def is_in_range(tree: LoopTree, element: Element, around: Sequence[For]) -> bool:
    """Whether an element is in bounds in all iterations of the loops around it."""
    shape: Sequence[Dim] = element.array.struct_info.dims  # type: ignore[attr-defined]
    sizes = (prod(shape),) if element.flat else shape
    for index, size in zip(tree.indices(element), sizes, strict=False):
        if index is None:
            return False
        lows = extremes(tree, index, around, False)
        highs = extremes(tree, index, around, True)
        is_low = any(dims.at_least(low, 0) for low in lows)
        if not is_low or not any(dims.at_least(size - 1, high) for high in highs):
            return False
    return True
