"""Merges the maps of a group that compute the same element, so that rewrites of expressions see
both, as in `1 + tanh(x)`."""

from __future__ import annotations

from collections import Counter

import attrs

from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import (
    Expression,
    Load,
    load,
    loads_of,
    rebuilt,
)
from structir.backend.loops.group import Group
from structir.backend.loops.rounding import rounded
from structir.backend.loops.stage import Stage


def with_inlined_values(group: Group) -> Group:
    """Returns a group in which values that one stage reads, once at its own point, are inlined."""
    reads = Counter(load.buffer for stage in group.stages for load in stage.loads)
    makers: dict[Buffer, Stage] = {}
    stages = list[Stage]()
    for stage in group.stages:
        for read in loads_of(stage.body):
            maker = makers.get(read.buffer)
            is_only = maker is not None and reads[read.buffer] == 1
            if maker is not None and is_only and _is_at_own_point(read, maker, stage):
                stage = _inlined(stage, read, maker)
                stages.remove(maker)
        stages.append(stage)
        if stage.direct and not stage.reduce and stage.out not in group.kept:
            makers[stage.out] = stage
    return group if len(stages) == len(group.stages) else attrs.evolve(group, stages=tuple(stages))


def _is_at_own_point(read: Load, maker: Stage, stage: Stage) -> bool:
    return (
        stage.otherwise is None and read.entries == maker.write and {*maker.axes} == {*stage.axes}
    )


def _inlined(stage: Stage, read: Load, maker: Stage) -> Stage:
    def leaf(node: Expression) -> Expression:
        if node is read:
            return rounded(maker.body, maker.out.dtype)
        if not isinstance(node, Load):
            return node
        entries = [rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries]
        return load(node.buffer, tuple(entries))

    return attrs.evolve(stage, body=rebuilt(stage.body, leaf))
