"""Regions of arrays that loops access: bounds per axis, as dims and as expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import Apply, For, Scalar, Size
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.bounds import extremes
from structir.loops.schedule.edits import substitute
from structir.loops.schedule.loop_tree import LoopTree
from structir.loops.schedule.sizes import size


@attrs.frozen
class AxisBounds:
    """The bounds of the accessed indices along an axis: at least each of `starts`, less than each
    of `stops`. Either is empty if unknown."""

    starts: tuple[Dim, ...]
    stops: tuple[Dim, ...]


def region(
    tree: LoopTree, accesses: Sequence[Access], loops: Callable[[Access], Sequence[For]]
) -> list[AxisBounds]:
    """Returns the bounding box of the elements that accesses of one array touch over some of their
    loops; bounds may depend on the variables of outer loops."""
    axes: list[AxisBounds] = []
    elements = [access.mention.element for access in accesses]
    inner = [loops(access) for access in accesses]
    known = [() if e is None else tree.indices(e) for e in elements]
    for indices in zip(*known, strict=True):
        pairs = list(zip(indices, inner, strict=True))
        starts = [_ends(tree, index, outer, False) for index, outer in pairs]
        stops = [[end + 1 for end in _ends(tree, index, outer, True)] for index, outer in pairs]
        axes.append(
            AxisBounds(
                _common(tree, starts, lambda one, other: dims.at_least(other, one) is True),
                _common(tree, stops, lambda one, other: dims.at_least(one, other) is True),
            )
        )
    return axes


def _ends(tree: LoopTree, index: Dim | None, loops: Sequence[For], upper: bool) -> list[Dim]:
    return [] if index is None else extremes(tree, index, loops, upper)


def _common(
    tree: LoopTree, ends: Sequence[Sequence[Dim]], bounds: Callable[[Dim, Dim], bool]
) -> tuple[Dim, ...]:
    """Returns the ends that bound all accesses; for each access all of its ends hold."""
    candidates: list[Dim] = []
    for end in (end for each in ends for end in each):
        is_new = not any(dims.equal(end, other) is True for other in candidates)
        is_bound = all(any(bounds(end, other) for other in each) for each in ends)
        if is_new and is_bound and expression(tree, end) is not None:
            candidates.append(end)
    return tuple(candidates)


def expression(tree: LoopTree, dim: Dim) -> Scalar | None:
    """Returns a dim over sizes and loop variables as an expression; None if a function such as
    floordiv contains loop variables."""
    variables = {symbol: local for local, symbol in tree.facts.symbols.items()}

    def change(part: Any) -> Any:
        return variables.get(dims.as_sym(part.dim)) if isinstance(part, Size) else None  # type: ignore[arg-type]

    scalar: Scalar = substitute(size(dim), change)
    remaining = {s for part in sizes_of(scalar) for s in dims.syms(part.dim)}
    return None if remaining & variables.keys() else scalar


def written(tree: LoopTree, dim: Dim) -> Scalar:
    """Returns an index, or a bound of a region, as an expression."""
    scalar = expression(tree, dim)
    assert scalar is not None, "indices are parsed from expressions"
    return scalar


def extent_from(tree: LoopTree, start: Dim, stops: Sequence[Dim]) -> Dim | None:
    """Returns the extent of a range, a constant if possible; None if no size bounds it."""
    extents = [stop - start for stop in stops]
    extents = [e for e in extents if tree.is_size(e) and dims.at_least(e, 0)]
    return next((e for e in extents if isinstance(e, int)), extents[0] if extents else None)


def sizes_of(scalar: Scalar) -> list[Size]:
    """Returns the sizes in an expression."""
    if isinstance(scalar, Size):
        return [scalar]
    return [s for arg in getattr(scalar, "args", ()) for s in sizes_of(arg)]


def extremum(fn: str, scalars: Sequence[Scalar]) -> Scalar:
    """Returns the minimum or maximum of several indices."""
    return reduce(lambda one, other: Apply(fn, (one, other), "int64"), scalars)
