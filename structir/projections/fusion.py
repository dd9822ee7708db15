"""Composes producer and consumer access maps to decide whether two ops can be fused.

A producer writes a value point by point, and a consumer reads it. The composed map gives the
producer points that a consumer point depends on, a row per parallel loop index of the producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import attrs

from structir.ir.dims import Dim
from structir.projections.maps import Projection, inverse, projection
from structir.projections.spec import IndexSpec, Read, Statement, Write, affine


class FusionRelation(Enum):
    """The dependence of a consumer point on producer points."""

    INLINE = "inline"  # one distinct point each: substitute without recomputation
    HOIST = "hoist"  # one point, shared along some axes: hoist out of them, or recompute
    WINDOW = "window"  # several points: recompute per user, or buffer
    SKIP = "skip"  # one point each, some unused: those are not computed
    DIAGONAL = "diagonal"  # one point, with coupled index variables
    WHOLE = "whole"  # a whole axis: fuse outside of that axis only
    BARRIER = "barrier"  # an index read from data, or no affine map


@attrs.frozen
class Fusion:
    """The dependence of a consumer on a producer, for fusion."""

    relation: FusionRelation
    points: Projection | None = None  # from parallel indices of the consumer to the producer's
    inner: tuple[int, ...] = ()  # parallel indices of the producer with several positions per point

    @property
    def legal(self) -> bool:
        """Whether the producer can be computed at its uses."""
        return self.relation not in (FusionRelation.BARRIER, FusionRelation.WHOLE)

    @property
    def exact(self) -> bool:
        """Whether fusion recomputes nothing."""
        return self.relation in (
            FusionRelation.INLINE,
            FusionRelation.SKIP,
            FusionRelation.DIAGONAL,
        )


BARRIER = Fusion(FusionRelation.BARRIER)


def fusion(
    producer: IndexSpec,
    producing: tuple[Statement, Write],
    consumer: IndexSpec,
    consuming: tuple[Statement, Read],
) -> Fusion:
    """Returns how a read of a value depends on the statement that writes it.

    A producer that reduces can be fused if its loops stay inside one point of the consumer: if the
    relation is `inline` or `hoist`; see `fusible`.
    """
    (statement, write), (user, read) = producing, consuming
    inverse_write = inverse(write.entries, statement.parallel, producer.extents)
    if inverse_write is None or any(entry.data is not None for entry in read.entries):
        return BARRIER
    if any(entry.loose for entry in read.entries):
        return BARRIER
    forward = projection(read.entries, user.parallel, consumer.extents)
    points = forward.after(inverse_write)
    if points is None or not _is_affine(read, user):
        return BARRIER
    multiple = tuple([k for k, size in enumerate(points.shape) if size != 1])
    if any(entry.whole for entry in read.entries):
        return Fusion(FusionRelation.WHOLE, points, multiple)
    if multiple:
        return Fusion(FusionRelation.WINDOW, points, multiple)
    producer_extents = [producer.extents[s] for s in statement.parallel]
    consumer_extents = [consumer.extents[s] for s in user.parallel]
    return Fusion(_classify(points, producer_extents, consumer_extents), points)


def _is_affine(read: Read, user: Statement) -> bool:
    """Whether every index of a read is affine, so that its projection is exact."""
    index_vars = (*user.parallel, *user.reduce)
    return all(e.whole or affine(e.dim, index_vars) is not None for e in read.entries)


def _classify(
    points: Projection, producer_extents: Sequence[Dim], consumer_extents: Sequence[Dim]
) -> FusionRelation:
    """Returns the relation of a map to single points, from the extents on both sides."""
    rows = [row for row, extent in zip(points.matrix, producer_extents, strict=True) if extent != 1]
    moving = [k for k, extent in enumerate(consumer_extents) if extent != 1]
    used = [[k for k in moving if row[k] != 0] for row in rows]
    columns = [k for row in used for k in row]
    if any(len(row) > 1 for row in used) or len(set(columns)) < len(columns):
        return FusionRelation.DIAGONAL
    if len(columns) < len(moving):
        return FusionRelation.HOIST
    permutes = all(used) and all(row[k] in (1, -1) for row, (k,) in zip(rows, used, strict=True))
    return FusionRelation.INLINE if permutes else FusionRelation.SKIP


def fusible(producer: Statement, dependence: Fusion) -> bool:
    """Whether a statement, with its reduction if it has one, may be computed at its uses."""
    if producer.reduce or producer.whole:
        return dependence.relation in (FusionRelation.INLINE, FusionRelation.HOIST)
    return dependence.legal
