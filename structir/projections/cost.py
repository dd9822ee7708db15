"""Compares the footprints of neighbouring tiles of a result: the elements that both read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import attrs

from structir.analysis.declaration import analysis
from structir.projections.boxes import Region, region

Name = TypeVar("Name", bound=Hashable)
# from a region of the result to the required region of each input
RegionMap = Callable[[Region], Mapping[Name, Region]]


def shards(shape: Sequence[int], grid: Sequence[int]) -> list[Region]:
    """Returns the blocks of a result cut into a grid, in row-major order.

    Block i of g along an axis of size d extends from `d*i//g` to `d*(i+1)//g`.
    """
    cuts = [
        [(d * i // g, d * (i + 1) // g) for i in range(g)] for d, g in zip(shape, grid, strict=True)
    ]
    return [region([a for a, _ in c], [b for _, b in c]) for c in itertools.product(*cuts)]


@attrs.frozen
class Sharing:
    """The overlap of two neighbouring tiles of a result in one input."""

    box: int  # elements of the bounding box that the first tile reads
    shared_box: int  # elements in both bounding boxes
    shared_needed: int | None  # elements that both tiles read; None if unknown
    stride: tuple[int, ...] | None  # offset between the boxes; None if either is empty

    @property
    def kind(self) -> str:
        """The kind of overlap: `full`, `halo` or `disjoint`."""
        if not self.shared_box:
            return "disjoint"
        return "full" if self.stride is not None and not any(self.stride) else "halo"


@analysis
def sharing(first: Region, second: Region) -> Sharing:
    """Returns the overlap of two tiles in one input, from the regions that they read."""
    a, b = first.bounds, second.bounds
    if a is None or b is None:
        return Sharing(first.volume, 0, 0, None)
    both = [(max(p, q), min(r, s)) for p, q, r, s in zip(a[0], b[0], a[1], b[1], strict=True)]
    shared = region([p for p, _ in both], [q for _, q in both])
    exact = first.exact and second.exact
    return Sharing(
        first.volume,
        shared.volume,
        first.common(second).count if exact else None,
        tuple([q - p for p, q in zip(a[0], b[0], strict=True)]),
    )


@analysis
def neighbours(
    walk: RegionMap[Name], at: Sequence[int], tile: Sequence[int], axis: int
) -> dict[Name, Sharing]:
    """Returns the overlap in every input of the tile at `at` and the next one along an axis.

    `walk` maps a region of the result to the required region of each input.
    """
    next_start = [
        position + (size if k == axis else 0)
        for k, (position, size) in enumerate(zip(at, tile, strict=True))
    ]
    first, second = (
        walk(region(corner, [p + n for p, n in zip(corner, tile, strict=True)]))
        for corner in (at, next_start)
    )
    return {name: sharing(first[name], second[name]) for name in first}
