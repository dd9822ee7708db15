"""Plans of a whole program on a mesh of workers: how each unit is cut, and where values move."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.distributed.layouts import (
    Coordinates,
    Layout,
    State,
    WorkerMesh,
    contains,
    hull,
    split_block,
    states,
)
from structir.distributed.planner import Planner
from structir.distributed.unit_cuts import (
    UnitCut,
    computed_layout,
    computed_states,
    cut_options,
    final_layout,
    is_partial,
    output_layout,
    required_blocks,
    worker_blocks,
    worker_ranges,
)
from structir.distributed.work_units import Key, WorkUnit, work_units
from structir.ir.dims import Sym
from structir.ir.node import ShownAsText
from structir.projections.boxes import Bounds, region
from structir.projections.program import Program, leaves
from structir.projections.restriction import Range
from structir.system.locks import cached_property

Worker = tuple[int, Coordinates]  # a pipeline stage, and the position in its mesh


@attrs.frozen(eq=False)
class MeshCuts:
    """The choices of a plan: a mesh for each pipeline stage, and the cut and stage of each unit.

    They hold for any sizes of the program.
    """

    mesh: WorkerMesh
    cuts: tuple[UnitCut, ...]
    stages: tuple[int, ...]
    micro_batches: int = 1

    @property
    def stage_count(self) -> int:
        """The number of pipeline stages."""
        return max(self.stages, default=0) + 1

    @property
    def size(self) -> int:
        """The number of workers."""
        return self.stage_count * self.mesh.size


@attrs.frozen(eq=False, repr=False)
class MeshPlan(ShownAsText):
    """A program at concrete sizes on a mesh of workers.

    Every value has a layout that follows from the cut of the unit that computes it. The block of
    each operand that a worker requires follows from the projections; where the worker does not hold
    it, the value is re-sharded: each worker receives the parts of its block from their holders.
    """

    planner: Planner
    choices: MeshCuts
    weights: frozenset[str]  # names of the parameters that are placed once

    @property
    def program(self) -> Program:
        """The steps of the program."""
        return self.planner.program

    @property
    def mesh(self) -> WorkerMesh:
        """The mesh of one pipeline stage."""
        return self.choices.mesh

    @cached_property
    def units(self) -> tuple[WorkUnit, ...]:
        """The units of the program, in order."""
        return work_units(self.program)

    @cached_property
    def unit_of(self) -> dict[Key, WorkUnit]:
        """The unit that computes each value."""
        return {key: unit for unit in self.units for key in unit.outputs}

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """All workers, stage by stage."""
        stages = range(self.choices.stage_count)
        return tuple([(stage, at) for stage in stages for at in self.mesh.workers])

    @cached_property
    def batches(self) -> tuple[Mapping[Key, Bounds], ...]:
        """The required block of every value, for each micro-batch."""
        return tuple(
            [
                required_values(self.planner, self.units, index, self.choices.micro_batches)
                for index in range(self.choices.micro_batches)
            ]
        )

    def layout(self, key: Any) -> Layout:
        """Returns the layout in which the workers hold a computed value."""
        unit = self.unit_of[key]
        return self._output_layout(unit, key, final_layout(self.choices.cuts[unit.index]))

    def _output_layout(self, unit: WorkUnit, key: Key, layout: Layout) -> Layout:
        shapes = self.program.shapes
        return output_layout(layout, shapes[key], shapes[unit.outputs[0]])

    def states(self, key: Any) -> tuple[State, ...]:
        """Returns the states of a computed value, after partial results combine."""
        layout = self.layout(key)
        return states(layout, [None] * len(layout))

    def computed_states(self, key: Any) -> tuple[State, ...]:
        """Returns the states of a value as it is computed: partial where a reduction is split."""
        unit = self.unit_of[key]
        cut = self.choices.cuts[unit.index]
        monoid = cut_options(self.program, unit).monoid
        return computed_states(cut, monoid) if is_partial(cut) else self.states(key)

    def held(self, batch: int, key: Any, worker: Worker) -> Bounds | None:
        """Returns the block of a computed value that a worker holds after its combination."""
        unit, (stage, at) = self.unit_of[key], worker
        if self.choices.stages[unit.index] != stage or key not in self.batches[batch]:
            return None
        return split_block(self.batches[batch][key], self.layout(key), self.mesh, at)

    @cached_property
    def _computed(self) -> dict[Hashable, tuple[dict[Key, Bounds], dict[Sym, Range] | None]]:
        return {}

    def computed(
        self, batch: int, unit: WorkUnit, at: Coordinates
    ) -> tuple[dict[Key, Bounds], dict[Sym, Range]]:
        """Returns the blocks that a worker of the unit's stage computes, before combination, and
        the ranges of the loops that it covers. No blocks: it has no part of the unit."""
        key = (batch, unit.index, at)
        if key not in self._computed:
            cut, base = self.choices.cuts[unit.index], self.batches[batch]
            layout = computed_layout(cut)
            blocks = worker_blocks(self.program, unit, layout, base, self.mesh, at)
            ranges = worker_ranges(self.program, unit, cut, self.mesh, at)
            self._computed[key] = ({}, {}) if ranges is None else (blocks, ranges)
        blocks, ranges = self._computed[key]
        return blocks, ranges or {}

    @cached_property
    def _needs(self) -> dict[Hashable, dict[Key, Bounds]]:
        return {}

    def needs(self, batch: int, unit: WorkUnit, at: Coordinates) -> dict[Key, Bounds]:
        """Returns the block of each input that a worker requires for its part of a unit."""
        key = (batch, unit.index, at)
        if key not in self._needs:
            blocks, ranges = self.computed(batch, unit, at)
            self._needs[key] = required_blocks(self.program, unit, blocks, ranges) if blocks else {}
        return self._needs[key]

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The level of each unit. Units of one level and stage run as one function: only between
        levels are values combined or exchanged."""
        levels: list[int] = []
        for unit in self.units:
            levels.append(max([self._level_after(levels, unit, key) for key in unit.inputs] + [0]))
        return tuple(levels)

    def _level_after(self, levels: list[int], unit: WorkUnit, key: Key) -> int:
        """Returns the first level of a unit after one of its inputs."""
        producer = self.unit_of.get(key)
        if producer is None:
            return 0
        return levels[producer.index] + self.moves(unit, key)

    def moves(self, unit: WorkUnit, key: Key) -> bool:
        """Whether a worker requires elements of a value that it did not compute."""
        producer, choices = self.unit_of[key], self.choices
        stage = choices.stages[unit.index]
        if choices.stages[producer.index] != stage or is_partial(choices.cuts[producer.index]):
            return True
        return any(
            not contains(self.held(batch, key, (stage, at)), need)
            for batch in range(choices.micro_batches)
            for at in self.mesh.workers
            if (need := self.needs(batch, unit, at).get(key)) is not None
        )

    @cached_property
    def parameters(self) -> dict[Key, str]:
        """The tensors among the parameters by key, with their names."""
        return {key: tensor.name for key, tensor in self.planner.inputs.items()}

    @cached_property
    def weight_blocks(self) -> dict[Worker, dict[str, Bounds]]:
        """The block of each weight that a worker holds: all that its units require."""
        held: dict[Worker, dict[str, Bounds]] = {worker: {} for worker in self.workers}
        for worker, key, need in self._parameter_needs():
            name = self.parameters[key]
            if name in self.weights:
                before = held[worker].get(name)
                held[worker][name] = need if before is None else hull(before, need)
        return held

    def _parameter_needs(self) -> Iterator[tuple[Worker, Key, Bounds]]:
        for batch in range(self.choices.micro_batches):
            for unit in self.units:
                stage = self.choices.stages[unit.index]
                for at in self.mesh.workers:
                    for key, need in self.needs(batch, unit, at).items():
                        if key in self.parameters:
                            yield (stage, at), key, need

    def at_sizes(self, planner: Planner) -> MeshPlan:
        """Returns the plan with the same choices at the sizes of another planner."""
        return attrs.evolve(self, planner=planner)

    def __str__(self) -> str:
        mesh = " x ".join(map(str, self.mesh.shape))
        stages = self.choices.stage_count
        pipeline = f", {stages} stages, {self.choices.micro_batches} micro-batches"
        return (
            f"{self.planner.name}: {len(self.workers)} workers (mesh {mesh}"
            f"{pipeline if stages > 1 else ''}), {max(self.levels, default=-1) + 1} levels"
        )


def required_values(
    planner: Planner, units: Sequence[WorkUnit], index: int, count: int
) -> dict[Key, Bounds]:
    """Returns the block of every value that part `index` of `count` of the results requires.

    Results are split along the first axis of the first result. A unit computes whole blocks, so the
    blocks of its inputs are those that its blocks require, not only their required elements.
    """
    shape = planner.shape
    grid = (count, *[1 for _ in shape[1:]]) if shape else ()
    at = (index, *[0 for _ in shape[1:]]) if shape else ()
    pairs = zip(planner.results, planner.blocks(grid, at), strict=True)
    required: dict[Key, Bounds] = {key: b for key, b in pairs if b is not None and region(*b)}
    for unit in reversed(units):
        blocks = {key: required[key] for key in unit.outputs if key in required}
        needs = required_blocks(planner.program, unit, blocks, {}) if blocks else {}
        for key, need in needs.items():
            required[key] = hull(required[key], need) if key in required else need
    return required


def result_keys(program: Program) -> list[Any]:
    """Returns the tensors of the result of a program, each once."""
    return list(dict.fromkeys(leaves(program.result)))
