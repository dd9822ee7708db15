"""Sharding plans: the input and output blocks of every shard, and what neighbours share."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from math import prod
from typing import Any

import attrs

from structir.ir.dtype import numpy_dtype
from structir.ir.node import ShownAsText
from structir.ir.op import Op
from structir.projections.boxes import Bounds, Region
from structir.projections.cost import Sharing
from structir.projections.program import CallOrigin, Program
from structir.projections.restriction import widths
from structir.system.locks import cached_property

Piece = tuple[int, int]  # index and number of the parts of a split reduction


@attrs.frozen
class PlanTensor:
    """An input or a result of a function, at concrete sizes."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bounds(self) -> Bounds:
        """The block that covers the tensor."""
        return (0,) * len(self.shape), self.shape

    def bytes_of(self, block: Bounds | None) -> int:
        """Returns the size of a block in bytes."""
        itemsize: int = numpy_dtype(self.dtype).itemsize
        return 0 if block is None else prod(widths(block)) * itemsize


@attrs.frozen
class ComputedBlock:
    """One call that a shard executes: the op, the block of its result, and its source location."""

    op: str
    block: Bounds
    location: str


@attrs.frozen(eq=False)
class Shard:
    """One task: its grid cell, the result blocks that it computes, the input blocks it receives."""

    index: int
    at: tuple[int, ...]
    piece: Piece
    results: tuple[Bounds | None, ...]  # one per result; None where it computes no block
    inputs: tuple[tuple[str, Bounds | None], ...]  # None: not a tensor, sent whole
    bytes_in: int
    bytes_out: int
    bytes_between: int  # of all intermediate blocks, without fusion
    regions: Mapping[Hashable, Region]  # of every value of the program

    def block_of(self, name: str) -> Bounds | None:
        """Returns the block of an input that it receives; None if none, or if not a tensor."""
        return dict(self.inputs).get(name)


@attrs.frozen(eq=False, repr=False)
class Plan(ShownAsText):
    """A function split into shards.

    `axes` gives, for each split axis of the grid, the overlap of neighbouring shards in every
    input: all of it, a halo, or nothing. Where a reduction is split, `pieces` consecutive shards
    compute partial results of the same block, which the NumPy function `combine` combines.
    """

    name: str
    program: Program
    sizes: Mapping[str, Any]  # with the row lengths of ragged parameters
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
        """Bytes received by all shards."""
        return sum(s.bytes_in for s in self.shards)

    @cached_property
    def bytes_out(self) -> int:
        """Bytes of the results of all shards."""
        return sum(s.bytes_out for s in self.shards)

    def traffic(self) -> dict[str, tuple[int, int]]:
        """Returns, for each input, its size and the total sent to all shards, in bytes."""
        sent = {
            t.name: sum(t.bytes_of(shard.block_of(t.name)) for shard in self.shards)
            for t in self.inputs
        }
        return {t.name: (t.bytes_of(t.bounds), sent[t.name]) for t in self.inputs}

    def calls(self, shard: Shard) -> Iterator[ComputedBlock]:
        """Yields the calls that a shard executes, in order, with their result blocks."""
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
        split = f", reduction split into {self.pieces}" if self.pieces > 1 else ""
        return f"{self.name}: {len(self.shards)} shards ({grid}{split}), {self.bytes_in} bytes in"
