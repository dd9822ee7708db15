"""Boxes of tensor elements, and regions: unions of a few boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

import attrs

from structir.projections.position_sets import PositionSet

Bounds = tuple[tuple[int, ...], tuple[int, ...]]  # start and exclusive end along each axis

MAX_BOXES = 4  # larger regions become their bounding box


class Box(NamedTuple):
    """A nonempty product of position sets, one per axis of a tensor.

    A box that is not `exact` is a superset of the elements that it represents.
    """

    axes: tuple[PositionSet, ...]
    exact: bool = True

    @property
    def bounds(self) -> Bounds:
        """The bounding interval along each axis."""
        return tuple([s.start for s in self.axes]), tuple([s.stop for s in self.axes])

    @property
    def volume(self) -> int:
        """The number of elements."""
        return prod([s.size for s in self.axes])

    def within(self, other: Box) -> bool:
        """Whether the box is contained in another."""
        return all(a.within(b) for a, b in zip(self.axes, other.axes, strict=True))

    def common(self, other: Box) -> Box | None:
        """Returns the intersection; None if it is empty."""
        axes = [a.common(b) for a, b in zip(self.axes, other.axes, strict=True)]
        return Box(tuple(axes), self.exact and other.exact) if all(axes) else None

    def around(self, other: Box) -> Box:
        """Returns a box that contains both: the union of positions along each axis."""
        axes = [a.joined(b) for a, b in zip(self.axes, other.axes, strict=True)]
        return Box(tuple(axes), False)

    def joined(self, other: Box) -> Box | None:
        """Returns the union if it is a box, else None."""
        if self.within(other):
            return other
        if other.within(self):
            return self
        differing = [k for k, axis in enumerate(self.axes) if axis != other.axes[k]]
        if len(differing) > 1:
            return None
        axes = [a.joined(b) for a, b in zip(self.axes, other.axes, strict=True)]
        exact = self.exact and other.exact and all(a.exact for a in axes)
        return Box(tuple(axes), exact)

    def without(self, other: Box) -> Box | None:
        """Returns a box that contains the elements not in another box; None if there are none."""
        if not other.exact:
            return self
        differing = [k for k, axis in enumerate(self.axes) if not axis.within(other.axes[k])]
        if not differing:
            return None
        if len(differing) > 1:
            return Box(self.axes, self.exact and self.common(other) is None)
        axes = list(self.axes)
        axes[differing[0]] = axes[differing[0]].without(other.axes[differing[0]])
        return Box(tuple(axes), self.exact and axes[differing[0]].exact)


def box(start: Sequence[int], stop: Sequence[int]) -> Box | None:
    """Returns the box between two corners, the second exclusive; None if it is empty."""
    axes = tuple([PositionSet(int(a), int(b)) for a, b in zip(start, stop, strict=True)])
    return Box(axes) if all(axes) else None


@attrs.frozen(cache_hash=True)
class Region:
    """A set of elements of one tensor: a union of boxes, none inside another."""

    boxes: tuple[Box, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.boxes)

    def __or__(self, other: Region) -> Region:
        if not self.boxes or not other.boxes or self.boxes == other.boxes:
            return self if self.boxes else other
        return region_of((*self.boxes, *other.boxes))

    @property
    def bounds(self) -> Bounds | None:
        """The bounding box; None if the region is empty."""
        if not self.boxes:
            return None
        if len(self.boxes) == 1:
            return self.boxes[0].bounds
        corners = [b.bounds for b in self.boxes]
        starts, stops = (
            zip(*[c[0] for c in corners], strict=True),
            zip(*[c[1] for c in corners], strict=True),
        )
        return tuple(map(min, starts)), tuple(map(max, stops))

    @property
    def exact(self) -> bool:
        """Whether the region is exact; otherwise it is a superset."""
        return all(b.exact for b in self.boxes)

    @property
    def volume(self) -> int:
        """The number of elements of the bounding box."""
        bounds = self.bounds
        if bounds is None:
            return 0
        return prod([b - a for a, b in zip(*bounds, strict=True)])

    @property
    def count(self) -> int:
        """The number of elements."""
        return _union_volume(self.boxes)

    @property
    def needed(self) -> int | None:
        """The number of required elements; None where unknown."""
        return self.count if self.exact else None

    @property
    def dense(self) -> bool:
        """Whether the region is nonempty and equals its bounding box."""
        return bool(self.boxes) and self.exact and self.count == self.volume

    def common(self, other: Region) -> Region:
        """Returns the intersection."""
        pairs = [a.common(b) for a in self.boxes for b in other.boxes]
        return region_of([p for p in pairs if p is not None])

    def within(self, other: Region) -> bool:
        """Whether the region is contained in another."""
        count = _union_volume(self.boxes)
        return count == _union_volume(tuple(_pairs(self.boxes, other.boxes)))


NOTHING = Region()


def region(start: Sequence[int], stop: Sequence[int]) -> Region:
    """Returns the region of one block; empty if the block is empty."""
    block = box(start, stop)
    return NOTHING if block is None else Region((block,))


def whole(shape: Sequence[int]) -> Region:
    """Returns the region of a whole tensor."""
    return region([0] * len(shape), shape)


def region_of(boxes: Iterable[Box]) -> Region:
    """Returns the union of boxes.

    Merges boxes whose union is a box. If more than MAX_BOXES remain, merges them into bounding
    boxes.
    """
    merged: list[Box] = []
    for box in boxes:
        _add(merged, box)
    while len(merged) > MAX_BOXES:
        last = merged.pop()
        _add(merged, merged.pop().around(last))
    return Region(tuple(merged))


def _add(merged: list[Box], new: Box) -> None:
    index = 0
    while index < len(merged):
        union = merged[index].joined(new)
        if union is None:
            index += 1
            continue
        del merged[index]
        new, index = union, 0
    merged.append(new)


def _pairs(boxes: Sequence[Box], others: Sequence[Box]) -> Iterator[Box]:
    for box in boxes:
        for other in others:
            shared = box.common(other)
            if shared is not None:
                yield shared


def _union_volume(boxes: Sequence[Box]) -> int:
    """Returns the number of elements of a union of boxes, by inclusion and exclusion."""
    if not boxes:
        return 0
    first, rest = boxes[0], boxes[1:]
    return first.volume + _union_volume(rest) - _union_volume(list(_pairs(rest, [first])))
