"""The cuts of a unit that its projection permits: axes of its result, and loops of a reduction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import attrs

from structir.distributed.layouts import (
    Coordinates,
    Layout,
    State,
    WorkerMesh,
    part_of,
    split_block,
    states,
)
from structir.distributed.reductions import COMBINE, narrowed_step, rounds_to_integers
from structir.distributed.work_units import Key, WorkUnit
from structir.ir.dims import Sym
from structir.projections.axis_kinds import PARALLEL, axis_kinds
from structir.projections.boxes import Bounds, region
from structir.projections.program import Program
from structir.projections.region_propagation import required_regions
from structir.projections.restriction import Range
from structir.projections.spec import Statement


@attrs.frozen(cache_hash=True)
class AxisCut:
    """The workers along a mesh axis compute consecutive blocks of an axis of the first result."""

    axis: int


@attrs.frozen(cache_hash=True)
class ReductionCut:
    """The workers along a mesh axis compute partial results over parts of a loop.

    Afterwards each combines its block along the axis `scatter`; None: all of the result.
    """

    loop: int  # position among the reduction loops
    scatter: int | None


Cut = AxisCut | ReductionCut | None
UnitCut = tuple[Cut, ...]  # one per mesh axis


@attrs.frozen(eq=False)
class CutOptions:
    """The axes and loops along which a unit may be cut."""

    kinds: tuple[str, ...]  # of the axes of the first result
    shape: tuple[int, ...]
    loops: tuple[int, ...]  # the extents of the reduction loops; empty if they cannot be cut
    monoid: str | None

    def refusal(self, axis: int) -> str | None:
        """Returns why an axis cannot be cut; None if it can."""
        if not 0 <= axis < len(self.shape):
            return f"expected an axis below {len(self.shape)}"
        if self.kinds[axis] != PARALLEL:
            return REASONS[self.kinds[axis]]
        return None if self.shape[axis] > 1 else f"its size is {self.shape[axis]}"

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that can be cut."""
        return tuple([axis for axis in range(len(self.shape)) if self.refusal(axis) is None])

    def along_mesh_axis(self) -> tuple[Cut, ...]:
        """Returns the cuts along one mesh axis; the first is none."""
        axes: list[Cut] = [AxisCut(axis) for axis in self.axes]
        sizes = enumerate(self.shape)
        scatters: list[int | None] = [axis for axis, size in sizes if size > 1]
        for loop, extent in enumerate(self.loops):
            if extent > 1:
                axes += [ReductionCut(loop, scatter) for scatter in scatters or [None]]
        return (None, *axes)

    def cuts(self, mesh: WorkerMesh) -> Iterator[UnitCut]:
        """Yields the cuts for a mesh, without those that leave a worker without elements while
        another has several."""
        for cut in itertools.product(self.along_mesh_axis(), repeat=len(mesh.shape)):
            if self.fits(cut, mesh):
                yield cut

    def fits(self, cut: UnitCut, mesh: WorkerMesh) -> bool:
        """Whether each mesh axis splits something of size above 1, and the combined block of each
        worker is part of the block that it computes."""
        if _scatters_before_split(cut):
            return False
        sizes: dict[object, int] = {}
        for part, count in zip(cut, mesh.shape, strict=True):
            if part is None:
                continue
            along = ("axis", part.axis) if isinstance(part, AxisCut) else ("loop", part.loop)
            extent = self.shape[along[1]] if along[0] == "axis" else self.loops[along[1]]
            width = sizes.get(along, extent)
            if width < 2:
                return False
            sizes[along] = -(-width // count)
        return True


def _scatters_before_split(cut: UnitCut) -> bool:
    """Whether a split follows a scatter along the same axis: its blocks would not be nested."""
    return any(
        isinstance(part, ReductionCut) and AxisCut(part.scatter) in cut[position:]
        for position, part in enumerate(cut)
        if isinstance(part, ReductionCut) and part.scatter is not None
    )


REASONS = {
    "scan": "the projection is a scan: each block requires all elements before it",
    "whole": "the projection reads or writes the whole axis at once",
    "opaque": "the op has no loops that run in parts, so each block requires all of its operands",
}


def cut_options(program: Program, unit: WorkUnit) -> CutOptions:
    """Returns the cuts of a unit."""
    shape = program.shapes[unit.outputs[0]]
    spec = unit.spec
    if len(unit.steps) > 1:
        return CutOptions((PARALLEL,) * len(shape), shape, (), None)
    if unit.rows is not None:
        return CutOptions((PARALLEL,) * len(shape), shape, (), None)
    if spec is None:
        return CutOptions(("opaque",) * len(shape), shape, (), None)
    kinds = axis_kinds(spec, unit.steps[0].outputs.index(unit.outputs[0]))
    statement = reducing_statement(unit)
    if statement is None:
        return CutOptions(kinds, shape, (), None)
    extents = tuple([program.number(spec.extents[s]) for s in statement.reduce])
    return CutOptions(kinds, shape, extents, statement.monoid or "sum")


def reducing_statement(unit: WorkUnit) -> Statement | None:
    """Returns the only statement of a unit, if it is a reduction that can be split."""
    spec = unit.spec
    if spec is None or not spec.computes or len(spec.statements) != 1 or len(unit.outputs) != 1:
        return None
    (statement,) = spec.statements
    splits = statement.reduce and (statement.monoid or "sum") in COMBINE and spec.base is None
    return (
        statement if splits and not statement.conditions and not rounds_to_integers(spec) else None
    )


def computed_layout(cut: UnitCut) -> Layout:
    """Returns the layout of the blocks that workers compute, before partial results combine."""
    return tuple([part.axis if isinstance(part, AxisCut) else None for part in cut])


def final_layout(cut: UnitCut) -> Layout:
    """Returns the layout of the result."""
    return tuple(
        [
            part.axis
            if isinstance(part, AxisCut)
            else part.scatter
            if isinstance(part, ReductionCut)
            else None
            for part in cut
        ]
    )


def without_scatter(cut: UnitCut) -> UnitCut:
    """Returns the cut that computes the same blocks, without the places of combined results."""
    return tuple([ReductionCut(p.loop, None) if isinstance(p, ReductionCut) else p for p in cut])


def is_partial(cut: UnitCut) -> bool:
    """Whether a cut computes partial results."""
    return any(isinstance(part, ReductionCut) for part in cut)


def computed_states(cut: UnitCut, monoid: str | None) -> tuple[State, ...]:
    """Returns the states of a result before partial results combine."""
    partial = [monoid if isinstance(part, ReductionCut) else None for part in cut]
    return states(computed_layout(cut), partial)


def output_layout(layout: Layout, shape: tuple[int, ...], first: tuple[int, ...]) -> Layout:
    """Returns the layout of a further result: split along the axes of equal size."""
    return tuple(
        [
            axis if axis is not None and axis < len(shape) and shape[axis] == first[axis] else None
            for axis in layout
        ]
    )


def worker_blocks(
    program: Program,
    unit: WorkUnit,
    layout: Layout,
    base: Mapping[Key, Bounds],
    mesh: WorkerMesh,
    at: Coordinates,
) -> dict[Key, Bounds]:
    """Returns the nonempty blocks of the results of a unit on one worker."""
    first = program.shapes[unit.outputs[0]]
    blocks = {}
    for key in unit.outputs:
        if key in base:
            own = output_layout(layout, program.shapes[key], first)
            block = split_block(base[key], own, mesh, at)
            if block is not None:
                blocks[key] = block
    return blocks


def worker_ranges(
    program: Program, unit: WorkUnit, cut: UnitCut, mesh: WorkerMesh, at: Coordinates
) -> dict[Sym, Range] | None:
    """Returns the ranges of the reduction loops on one worker; None if one is empty."""
    ranges: dict[Sym, Range] = {}
    statement = reducing_statement(unit) if is_partial(cut) else None
    spec = unit.spec
    if statement is None or spec is None:
        return ranges
    for part, count, index in zip(cut, mesh.shape, at, strict=True):
        if isinstance(part, ReductionCut):
            loop = statement.reduce[part.loop]
            whole = ranges.get(loop, (0, program.number(spec.extents[loop])))
            ranges[loop] = part_of(whole, index, count)
    return None if any(a >= b for a, b in ranges.values()) else ranges


def required_blocks(
    program: Program,
    unit: WorkUnit,
    blocks: Mapping[Key, Bounds],
    ranges: Mapping[Sym, Range],
) -> dict[Key, Bounds]:
    """Returns the block of each input that blocks of the results require, by the projections."""
    steps = unit.steps
    if ranges and unit.spec is not None:
        steps = (narrowed_step(steps[0], ranges),)
    regions = required_regions(steps, {key: region(*block) for key, block in blocks.items()})
    needed = {key: regions[key].bounds for key in unit.inputs if regions.get(key)}
    return {key: bounds for key, bounds in needed.items() if bounds is not None}
