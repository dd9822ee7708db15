"""Pairs of loops that strip mining creates: a loop over blocks, and one over the iterations of each
block."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import For, Scalar
from structir.ir.node import replace
from structir.loops.schedule.loop_tree import LoopTree
from structir.loops.schedule.regions import expression, extremum


def without_blocks(tree: LoopTree, outer: For, inner: For) -> For | None:
    """Returns the loop over the iterations of all blocks; None if the inner loop is not over
    consecutive blocks, one per iteration of the outer loop."""
    around, inside = _ends(tree, outer), _ends(tree, inner)
    if around is None or inside is None:
        return None
    (first, stops), (start, ends) = around, inside
    symbol = tree.symbol(outer.variable)
    step, base = dims.linear(start, symbol) or (0, start)
    length = step * outer.step
    if dims.at_least(length, 1) is not True:
        return None
    if inner.step > 1 and dims.equal(dims.floormod(length, inner.step), 0) is not True:
        return None
    fixed = list(dict.fromkeys([end for end in ends if symbol not in dims.syms(end)]))
    others = [end for end in ends if symbol in dims.syms(end)]
    if not others or not _are_consecutive(others, start + length):
        return None
    begin = base + step * first
    last = [begin + length * dims.ceildiv(stop - first, outer.step) for stop in stops]
    limits = [*fixed, *[end for end in last if not _is_implied(end, fixed)]]
    scalars = [expression(tree, dim) for dim in (begin, *limits)]
    known: list[Scalar] = [scalar for scalar in scalars if scalar is not None]
    if len(known) < len(scalars):
        return None
    return replace(inner, start=known[0], stop=extremum("min", known[1:]))


def _are_consecutive(ends: list[Dim], start: Dim) -> bool:
    """Whether each block ends where the next one starts."""
    return all(dims.equal(end, start) is True for end in ends)


def blocked_by(tree: LoopTree, inner: For, among: list[For]) -> For | None:
    """Returns the loop whose blocks a loop iterates over."""
    pairs = (outer for outer in among if without_blocks(tree, outer, inner) is not None)
    return next(pairs, None)


def _ends(tree: LoopTree, loop: For) -> tuple[Dim, list[Dim]] | None:
    """Returns the start and the stops of an ascending loop."""
    ends = tree.exact_ends(loop) if loop.step > 0 else None
    return None if ends is None else (ends[0], ends[1])


def _is_implied(end: Dim, limits: list[Dim]) -> bool:
    """Whether one of some limits is at most this one."""
    return any(dims.at_least(end, limit) is True for limit in limits)
