"""Epilogue fusion: maps that read the result of a stage at its own points can join its kernel."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Load
from structir.loops.program.stage import Stage


def not_following(
    first: Stage, stages: Sequence[Stage], kept: Collection[Buffer], several: Collection[Buffer]
) -> str | None:
    """Returns why the other stages are no chain of maps that read the first one's result at their
    own point; None if they are. Buffers in `kept` are read elsewhere, those in `several` have
    several writers."""
    producers = {stage.out: stage for stage in stages}
    if any(read.buffer in producers for read in first.loads):
        return "an operand of a matrix product is computed before it"
    following = {first}
    for stage in [s for s in stages if s is not first]:
        reads = [read for read in stage.loads if read.buffer in producers]
        after = [read for read in reads if producers[read.buffer] in following]
        if not stage.direct or stage.reduce or any(r.entries != stage.write for r in after):
            return "not elementwise in the result of a matrix product"
        if any(read.buffer.root in several or not _is_known(read) for read in reads):
            return "an index is read from data, or there are several writers"
        if after:
            following.add(stage)
        elif stage.out in kept:
            return "the epilogue of a matrix product depends on a value that is read elsewhere"
    return None


def _is_known(read: Load) -> bool:
    return read.buffer.base is None and not any(isinstance(e, Expression) for e in read.entries)
