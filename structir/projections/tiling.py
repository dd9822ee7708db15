"""Computes the cost of a tiling in closed form, and searches the cheapest tile.

Away from borders, offset and overlap are equal for all pairs of neighbours, so one number per
operand and axis is enough. At borders tiles read less: the figures are upper bounds there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.lazy import lazy_module
from structir.projections.injectivity import abs_of
from structir.projections.maps import Projection

np = lazy_module("numpy")

Number = Any  # a dim, or an array with one number per candidate tile


@attrs.frozen
class Arithmetic:
    """The operations of the cost formulas, on dims or on arrays."""

    minimum: Callable[[Number, Number], Number]
    maximum: Callable[[Number, Number], Number]
    ceildiv: Callable[[Number, Number], Number]


ON_DIMS = Arithmetic(dims.dim_min, dims.dim_max, dims.ceildiv)
ON_ARRAYS = Arithmetic(
    lambda a, b: np.minimum(a, b), lambda a, b: np.maximum(a, b), lambda a, b: -(-a // b)
)


@attrs.frozen
class Stream:
    """An operand of a tiling: its projection, its shape, and the bytes of an element."""

    projection: Projection
    shape: tuple[Dim, ...]
    bytes_each: int


@attrs.frozen
class StreamCost:
    """The cost of a tiling for one operand, in bytes except for `box`."""

    box: tuple[Number, ...]  # positions along each axis that a tile reads
    footprint: Number
    shared: tuple[Number, ...]  # with the next tile, along each axis of the result
    traffic: Number  # of all tiles, without the bytes reused along the innermost split axis

    def fresh(self, axis: int) -> Number:
        """Returns the bytes that the next tile along an axis reads in addition."""
        return self.footprint - self.shared[axis]


@attrs.frozen
class TilingCost:
    """The cost of a tiling."""

    tiles: Number
    working_set: Number  # bytes that a tile touches
    streams: tuple[StreamCost, ...]

    @property
    def traffic(self) -> Number:
        """The bytes moved by all tiles."""
        return reduce(lambda total, stream: total + stream.traffic, self.streams, 0)


def tiling_cost(
    streams: Sequence[Stream],
    extents: Sequence[Dim],
    tile: Sequence[Number],
    reuse: bool = True,
    scratch: Number = 0,
    arithmetic: Arithmetic = ON_DIMS,
) -> TilingCost:
    """Returns the cost of cutting a result of these extents into tiles.

    With `reuse`, the overlap with the previous tile along the innermost split axis is not read
    again, as when the working set fits a cache.
    """
    counts = [arithmetic.ceildiv(n, t) for n, t in zip(extents, tile, strict=True)]
    tiles = reduce(lambda total, count: total * count, counts, 1)
    costs = [_stream_cost(s, tile, counts, tiles, reuse, arithmetic) for s in streams]
    working_set = reduce(lambda total, cost: total + cost.footprint, costs, scratch)
    return TilingCost(tiles, working_set, tuple(costs))


def _stream_cost(
    stream: Stream,
    tile: Sequence[Number],
    counts: Sequence[Number],
    tiles: Number,
    reuse: bool,
    arithmetic: Arithmetic,
) -> StreamCost:
    projection = stream.projection
    box = tuple([_width(projection, j, n, tile, arithmetic) for j, n in enumerate(stream.shape)])
    footprint = _product(box) * stream.bytes_each
    shared = tuple(
        [
            _product(
                [_overlap(projection, j, i, width, tile, arithmetic) for j, width in enumerate(box)]
            )
            * stream.bytes_each
            for i in range(len(tile))
        ]
    )
    traffic = tiles * footprint
    if reuse:
        traffic = traffic - _reused(shared, counts, arithmetic)
    return StreamCost(box, footprint, shared, traffic)


def _product(factors: Sequence[Number]) -> Number:
    return reduce(lambda total, factor: total * factor, factors, 1)


def _width(
    projection: Projection, j: int, size: Dim, tile: Sequence[Number], arithmetic: Arithmetic
) -> Number:
    """Returns the number of positions of an axis that a tile reads."""
    width: Number = projection.shape[j]
    for factor, extent in zip(projection.matrix[j], tile, strict=True):
        width = width + abs_of(factor) * (extent - 1)
    return arithmetic.minimum(width, size)


def _overlap(
    projection: Projection,
    j: int,
    i: int,
    width: Number,
    tile: Sequence[Number],
    arithmetic: Arithmetic,
) -> Number:
    """Returns the number of positions of an axis that a tile and the next one along axis i both
    read.
    """
    return arithmetic.maximum(width - abs_of(projection.matrix[j][i]) * tile[i], 0)


def _reused(shared: Sequence[Number], counts: Sequence[Number], arithmetic: Arithmetic) -> Number:
    """Returns the bytes that are reused along the innermost split axis."""
    total: Number = 0
    is_innermost: Number = 1  # 0 if an inner axis is split
    for axis in reversed(range(len(counts))):
        others = _product([n for k, n in enumerate(counts) if k != axis])
        total = total + is_innermost * others * (counts[axis] - 1) * shared[axis]
        is_innermost = is_innermost * arithmetic.maximum(2 - counts[axis], 0)
    return total


def cheapest_tile(
    streams: Sequence[Stream],
    extents: Sequence[int],
    candidates: Sequence[Sequence[int]],
    capacity: int,
) -> tuple[int, ...] | None:
    """Returns the tile of least traffic whose working set fits; None if none fits.

    Of equal ones it returns the largest. `candidates` are the sizes to consider along each axis.
    """
    tiles = np.array(list(itertools.product(*candidates)), "int64").reshape(-1, len(extents))
    cost = tiling_cost(streams, extents, list(tiles.T), arithmetic=ON_ARRAYS)
    fits = np.broadcast_to(cost.working_set, len(tiles)) <= capacity
    if not fits.any():
        return None
    traffic = np.broadcast_to(cost.traffic, len(tiles))
    volume = tiles.prod(axis=1)
    order = np.lexsort((-volume, np.where(fits, traffic, np.iinfo("int64").max)))
    return tuple(tiles[order[0]].tolist())
