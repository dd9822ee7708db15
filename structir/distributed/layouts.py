"""Layouts: how the workers of a mesh hold a value, as replicated, sharded or partial states."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod

import attrs

from structir.projections.boxes import Bounds
from structir.system.locks import cached_property

Coordinates = tuple[int, ...]  # of a worker in its mesh
Layout = tuple[int | None, ...]  # the axis that each mesh axis splits; None: replicated along it


@attrs.frozen
class ReplicatedState:
    """Every worker along a mesh axis holds the same block."""

    def __str__(self) -> str:
        return "replicated"


@attrs.frozen
class ShardedState:
    """The workers along a mesh axis hold consecutive blocks of an axis of the value."""

    axis: int

    def __str__(self) -> str:
        return f"sharded({self.axis})"


@attrs.frozen
class PartialState:
    """The workers along a mesh axis hold terms, which the monoid combines."""

    monoid: str

    def __str__(self) -> str:
        return f"partial({self.monoid})"


State = ReplicatedState | ShardedState | PartialState


@attrs.frozen
class WorkerMesh:
    """Workers in a grid. Each axis of the grid splits one axis of a value, or a reduction."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of workers."""
        return prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the mesh axes in exported shardings: `w0`, `w1`, ..."""
        return tuple([f"w{k}" for k in range(len(self.shape))])

    @cached_property
    def workers(self) -> tuple[Coordinates, ...]:
        """The coordinates of all workers, in row-major order."""
        return tuple(itertools.product(*map(range, self.shape)))

    @cached_property
    def samples(self) -> tuple[tuple[Coordinates, int], ...]:
        """The workers at the corners and in the middle, each with the number that it represents.

        The last block along an axis is never smaller than another, and the middle ones have two
        neighbours: the costs of these workers bound those of the others.
        """
        axes = [_axis_samples(n) for n in self.shape]
        pairs = itertools.product(*axes)
        return tuple([(tuple([i for i, _ in p]), prod([c for _, c in p])) for p in pairs])


def _axis_samples(count: int) -> list[tuple[int, int]]:
    if count < 4:
        return [(index, 1) for index in range(count)]
    return [(0, 1), (count // 2, count - 2), (count - 1, 1)]


def split_block(bounds: Bounds, layout: Layout, mesh: WorkerMesh, at: Coordinates) -> Bounds | None:
    """Returns the block of a worker; None if it is empty.

    Mesh axes that split one axis are nested. Part i of n extends from `d*i//n` to `d*(i+1)//n`.
    """
    start, stop = list(bounds[0]), list(bounds[1])
    for axis, count, index in zip(layout, mesh.shape, at, strict=True):
        if axis is not None:
            start[axis], stop[axis] = part_of((start[axis], stop[axis]), index, count)
    if any(a >= b for a, b in zip(start, stop, strict=True)):
        return None
    return tuple(start), tuple(stop)


def part_of(positions: tuple[int, int], index: int, count: int) -> tuple[int, int]:
    """Returns a part of a range of positions."""
    start, stop = positions
    width = stop - start
    return start + width * index // count, start + width * (index + 1) // count


def intersection(first: Bounds, second: Bounds) -> Bounds | None:
    """Returns the common block; None if it is empty."""
    start = tuple(map(max, zip(first[0], second[0], strict=True)))
    stop = tuple(map(min, zip(first[1], second[1], strict=True)))
    return (start, stop) if all(a < b for a, b in zip(start, stop, strict=True)) else None


def hull(first: Bounds, second: Bounds) -> Bounds:
    """Returns the smallest block that contains two blocks."""
    start = tuple(map(min, zip(first[0], second[0], strict=True)))
    return start, tuple(map(max, zip(first[1], second[1], strict=True)))


def contains(outer: Bounds | None, inner: Bounds) -> bool:
    """Whether a block contains another."""
    if outer is None:
        return False
    starts = all(a <= b for a, b in zip(outer[0], inner[0], strict=True))
    return starts and all(a >= b for a, b in zip(outer[1], inner[1], strict=True))


def volume(bounds: Bounds | None) -> int:
    """Returns the number of elements of a block."""
    return 0 if bounds is None else prod([b - a for a, b in zip(*bounds, strict=True)])


def states(layout: Layout, partial: Sequence[str | None]) -> tuple[State, ...]:
    """Returns the state along each mesh axis; `partial` has the monoid of a split reduction."""
    return tuple(_states(layout, partial))


def _states(layout: Layout, partial: Sequence[str | None]) -> Iterator[State]:
    for axis, monoid in zip(layout, partial, strict=True):
        if monoid is not None:
            yield PartialState(monoid)
        else:
            yield ReplicatedState() if axis is None else ShardedState(axis)
