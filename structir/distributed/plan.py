"""What a sharding plan says: which block of which input every shard receives, what it makes of
them, and what neighbours share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

import attrs

from structir.ir.dtype import numpy_dtype
from structir.ir.op import Op
from structir.projections.boxes import Bounds, Region
from structir.projections.cost import Sharing
from structir.projections.local import widths
from structir.projections.program import CallOrigin, Program

Piece = tuple[int, int]  # which part of a reduction, of how many


@attrs.frozen
class PlanTensor:
    """An input or a result of a function at concrete sizes."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bounds(self) -> Bounds:
        """The block that is all of it."""
        return (0,) * len(self.shape), self.shape

    def bytes_of(self, block: Bounds | None) -> int:
        """How many bytes a block of it has."""
        itemsize: int = numpy_dtype(self.dtype).itemsize
        return 0 if block is None else prod(widths(block)) * itemsize


@attrs.frozen
class ComputedBlock:
    """One call that a shard makes: the op, the block of its result, and where it stands in the
    program."""

    op: str
    block: Bounds
    place: str


@attrs.frozen(eq=False)
class Shard:
    """One task: its place in the grid, the blocks of the results that it makes and the blocks of
    the inputs that it receives."""

    index: int
    at: tuple[int, ...]
    piece: Piece
    results: tuple[Bounds | None, ...]  # of every result, None where it makes nothing of it
    inputs: tuple[tuple[str, Bounds | None], ...]  # None: a number, or whatever is no tensor
    bytes_in: int
    bytes_out: int
    bytes_between: int  # of all blocks made on the way, where nothing is fused
    regions: Mapping[Hashable, Region]  # of every value of the program

    def block_of(self, name: str) -> Bounds | None:
        """The block that it receives of an input; None if nothing of it, or what is no tensor."""
        return dict(self.inputs).get(name)


@attrs.frozen(eq=False)
class Plan:
    """A function cut into shards.

    `axes` tells, for each axis of the grid that is cut, what neighbouring shards share of every
    input: all of it, a halo, or nothing. Where a reduction is cut, `pieces` shards in a row make
    parts of the same block, which `combine` (a function of NumPy) makes one.
    """

    name: str
    program: Program
    sizes: Mapping[str, int]
    grid: tuple[int, ...]
    inputs: tuple[PlanTensor, ...]
    results: tuple[PlanTensor, ...]
    shards: tuple[Shard, ...]
    axes: Mapping[int, Mapping[str, Sharing]]
    kinds: tuple[str, ...]  # of the axes of the first result: parallel, scan or whole
    constants: Mapping[str, Any]  # arrays of the program, sent like inputs
    pieces: int = 1
    combine: str | None = None

    @cached_property
    def bytes_in(self) -> int:
        """What all shards receive together."""
        return sum(s.bytes_in for s in self.shards)

    @cached_property
    def bytes_out(self) -> int:
        """What all shards make together."""
        return sum(s.bytes_out for s in self.shards)

    def traffic(self) -> dict[str, tuple[int, int]]:
        """For each input, its bytes and the bytes that are sent of it to all shards."""
        sent = {
            t.name: sum(t.bytes_of(shard.block_of(t.name)) for shard in self.shards)
            for t in self.inputs
        }
        return {t.name: (t.bytes_of(t.bounds), sent[t.name]) for t in self.inputs}

    def calls(self, shard: Shard) -> Iterator[ComputedBlock]:
        """The calls that a shard makes, in order: where each block of the whole starts."""
        for step in self.program.steps:
            origin = step.origin
            for output in step.outputs if isinstance(origin, CallOrigin) else ():
                region = shard.regions.get(output)
                bounds = region.bounds if region else None
                if bounds is not None:
                    op = origin.call.op
                    name = op.name if isinstance(op, Op) else str(op)
                    yield ComputedBlock(name, bounds, str(origin.call.span or ""))

    def __str__(self) -> str:
        grid = " x ".join(map(str, self.grid))
        cut = f", a reduction in {self.pieces}" if self.pieces > 1 else ""
        return f"{self.name}: {len(self.shards)} shards ({grid}{cut}), {self.bytes_in} bytes in"
