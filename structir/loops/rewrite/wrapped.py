"""Maps with piecewise affine indices along their last axis, cyclic or reflected: one stage for each
run of contiguous indices."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.program.access import split
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Position,
    axis_dim,
    load,
    position,
    rebuilt,
)
from structir.loops.program.stage import LoopProgram, Stage

MOST_RUNS = 4  # stages into which one is split
MOST_POINTS = 8192  # points of an axis whose indices are evaluated
FIRST_POINTS = 32


@attrs.frozen
class Run:
    """Positions from `begin` on, `count` of them, at the indices `start + step * k`."""

    begin: int
    count: int
    start: int
    step: int


def with_runs(program: LoopProgram) -> LoopProgram:
    """Returns the program with one stage for each run of such a map."""
    stages = [part for stage in program.stages for part in _parts(stage)]
    return attrs.evolve(program, stages=tuple(stages))


def _parts(stage: Stage) -> list[Stage]:
    """Returns the stages of the runs of a map; the map itself if its indices are affine."""
    if not stage.simple or stage.reduce or not stage.parallel:
        return [stage]
    axis = stage.parallel[-1]
    extent = stage.extents[axis]
    if not isinstance(extent, int) or extent > MOST_POINTS:
        return [stage]
    entries = {e for read in stage.loads for e in read.entries}
    bent = [e for e in entries if _is_bent(e, axis)]
    if len(bent) != 1:
        return [stage]
    (index,) = bent
    runs = list[Run]()
    for points in (min(extent, FIRST_POINTS), extent):  # most other indices bend early
        runs = runs_of([dims.evaluate(index, {axis: k}) for k in range(points)])  # type: ignore[arg-type]
        if len(runs) > MOST_RUNS:
            return [stage]
    return [_part(stage, axis, index, run) for run in runs] or [stage]


def _is_bent(entry: Entry, axis: Sym) -> bool:
    """Whether an index depends on the axis alone, and is not affine in it."""
    if isinstance(entry, Expression) or dims.syms(entry) != {axis}:
        return False
    return axis in dims.syms(split(entry, (axis,))[1])


def runs_of(indices: Sequence[int]) -> list[Run]:
    """Returns the longest runs of equal steps, from the left."""
    runs, begin = list[Run](), 0
    while begin < len(indices):
        end = begin + 1
        step = indices[end] - indices[begin] if end < len(indices) else 0
        while end < len(indices) and indices[end] - indices[end - 1] == step:
            end += 1
        runs.append(Run(begin, end - begin, indices[begin], step))
        begin = end
    return runs


def _part(stage: Stage, axis: Sym, index: Entry, run: Run) -> Stage:
    """Returns the part of a map at the positions of a run."""
    own = Sym(axis.name)
    at: Dim = axis_dim(own) + run.begin

    def leaf(node: Expression) -> Expression:
        if isinstance(node, Position):
            return position(dims.substitute(node.dim, {axis: at}), node.dtype)
        if not isinstance(node, Load):
            return node
        return load(node.buffer, tuple([entry(e) for e in node.entries]))

    def entry(e: Entry) -> Entry:
        if isinstance(e, Expression):
            return rebuilt(e, leaf)
        return (
            axis_dim(own) * run.step + run.start if e == index else dims.substitute(e, {axis: at})
        )

    return attrs.evolve(
        stage,
        parallel=(*stage.parallel[:-1], own),
        extents={**{a: n for a, n in stage.extents.items() if a is not axis}, own: run.count},
        body=rebuilt(stage.body, leaf),
        write=tuple([entry(e) for e in stage.write]),
    )
