"""The tasks of a mesh plan: level functions, combinations, and the pieces of their inputs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import attrs

from structir.distributed.layouts import contains, hull, intersection, split_block, volume
from structir.distributed.mesh_plan import MeshPlan, Worker, result_keys
from structir.distributed.unit_cuts import ReductionCut, cut_options, final_layout, is_partial
from structir.distributed.work_units import Key, WorkUnit
from structir.errors import StructIRError
from structir.projections.boxes import Bounds
from structir.system.locks import cached_property

TaskName = tuple[Any, ...]  # ("level", batch, worker, level) or ("combine", batch, worker, unit)


@attrs.frozen
class PieceSource:
    """Where a block comes from: an output of a task, or a parameter (no task)."""

    task: TaskName | None
    output: int  # position among the outputs of the task, or the index of the value
    held: Bounds  # the block at the source
    part: Bounds  # the part of it that is used


@attrs.frozen
class BlockInput:
    """A block that a task receives, in pieces."""

    value: int  # index of the value in the program
    bounds: Bounds
    sources: tuple[PieceSource, ...]


@attrs.frozen
class UnitPart:
    """The part of a unit that a worker computes: blocks by index of the value, ranges of loops."""

    unit: int
    blocks: tuple[tuple[int, Bounds], ...]
    ranges: tuple[tuple[int, tuple[int, int]], ...]  # by position of the reduction loop


@attrs.frozen
class LevelTask:
    """The units of one level on one worker, as one function. Picklable."""

    name: TaskName
    worker: Worker
    parts: tuple[UnitPart, ...]
    inputs: tuple[BlockInput, ...]
    outputs: tuple[tuple[int, Bounds], ...]


@attrs.frozen
class CombineTask:
    """The combination of partial results of one block on one worker."""

    name: TaskName
    worker: Worker
    monoid: str
    bounds: Bounds
    sources: tuple[PieceSource, ...]


@attrs.frozen(eq=False)
class MeshSchedule:
    """The tasks of a plan, in an order in which sources precede their uses."""

    plan: MeshPlan

    @cached_property
    def value_index(self) -> dict[Key, int]:
        """The index of each value of the program."""
        return {key: number for number, key in enumerate(self.plan.program.shapes)}

    @cached_property
    def _exported(self) -> set[Key]:
        """The values that another level, a worker or the caller uses."""
        plan = self.plan
        exported = set(result_keys(plan.program))
        for unit in plan.units:
            for key in unit.inputs:
                producer = plan.unit_of.get(key)
                if producer is None:
                    continue
                same_stage = plan.choices.stages[producer.index] == plan.choices.stages[unit.index]
                if plan.levels[producer.index] != plan.levels[unit.index] or not same_stage:
                    exported.add(key)
        return exported

    def tasks(self) -> Iterator[LevelTask | CombineTask]:
        """Yields the tasks."""
        plan = self.plan
        for batch in range(plan.choices.micro_batches):
            for level in range(max(plan.levels, default=-1) + 1):
                units = [u for u in plan.units if plan.levels[u.index] == level]
                for worker in plan.workers:
                    task = self._level_task(batch, level, units, worker)
                    if task is not None:
                        yield task
                for unit in units:
                    if is_partial(plan.choices.cuts[unit.index]):
                        yield from self._combinations(batch, level, unit)

    def _level_task(
        self, batch: int, level: int, units: Sequence[WorkUnit], worker: Worker
    ) -> LevelTask | None:
        plan, (stage, at) = self.plan, worker
        parts, outputs, needs = [], [], dict[Key, Bounds]()
        for unit in units:
            if plan.choices.stages[unit.index] != stage:
                continue
            blocks, _ = plan.computed(batch, unit, at)
            if not blocks:
                continue
            parts.append(self._part(batch, unit, worker))
            outputs += [(self.value_index[k], b) for k, b in blocks.items() if k in self._exported]
            for key, need in plan.needs(batch, unit, at).items():
                before = needs.get(key)
                needs[key] = need if before is None else hull(before, need)
        computed_here = {value for part in parts for value, _ in part.blocks}
        inputs = [
            self._input(batch, key, need, worker)
            for key, need in needs.items()
            if self.value_index[key] not in computed_here
        ]
        if not outputs:
            return None
        name = ("level", batch, worker, level)
        return LevelTask(name, worker, tuple(parts), tuple(inputs), tuple(outputs))

    def _part(self, batch: int, unit: WorkUnit, worker: Worker) -> UnitPart:
        blocks, ranges = self.plan.computed(batch, unit, worker[1])
        loops = unit.spec.statements[0].reduce if ranges and unit.spec is not None else ()
        return UnitPart(
            unit.index,
            tuple([(self.value_index[key], block) for key, block in blocks.items()]),
            tuple([(k, ranges[loop]) for k, loop in enumerate(loops) if loop in ranges]),
        )

    def _input(self, batch: int, key: Key, need: Bounds, worker: Worker) -> BlockInput:
        index = self.value_index[key]
        if key in self.plan.parameters:
            return BlockInput(index, need, (PieceSource(None, index, need, need),))
        return BlockInput(index, need, self.sources(batch, key, need, worker))

    def sources(
        self, batch: int, key: Key, need: Bounds, worker: Worker
    ) -> tuple[PieceSource, ...]:
        """Returns the pieces of a block of a computed value, from the worker itself or the nearest
        holders."""
        workers = self.plan.workers
        start = workers.index(worker)
        pieces: list[PieceSource] = []
        for holder in (*workers[start:], *workers[:start]):
            held = self.plan.held(batch, key, holder)
            common = None if held is None else intersection(held, need)
            if held is None or common is None or any(contains(p.part, common) for p in pieces):
                continue
            pieces.append(PieceSource(*self._holder(batch, key, holder), held, common))
            if sum(volume(p.part) for p in pieces) == volume(need):
                return tuple(pieces)
        if sum(volume(p.part) for p in pieces) < volume(need):
            message = f"the workers hold only a part of a block of {self.plan.planner.name}"
            raise StructIRError(message, code="E0910")
        return tuple(pieces)

    def _holder(self, batch: int, key: Key, holder: Worker) -> tuple[TaskName, int]:
        """Returns the task on a worker that has a value, and the position among its outputs."""
        plan = self.plan
        unit = plan.unit_of[key]
        if is_partial(plan.choices.cuts[unit.index]):
            return ("combine", batch, holder, unit.index), 0
        name = ("level", batch, holder, plan.levels[unit.index])
        return name, self._positions(batch, holder, plan.levels[unit.index])[key]

    @cached_property
    def _position_memo(self) -> dict[Hashable, dict[Key, int]]:
        return {}

    def _positions(self, batch: int, worker: Worker, level: int) -> dict[Key, int]:
        memo = (batch, worker, level)
        if memo not in self._position_memo:
            plan = self.plan
            keys = [
                key
                for unit in plan.units
                if plan.levels[unit.index] == level and plan.choices.stages[unit.index] == worker[0]
                for key in plan.computed(batch, unit, worker[1])[0]
                if key in self._exported
            ]
            self._position_memo[memo] = {key: number for number, key in enumerate(keys)}
        return self._position_memo[memo]

    def _combinations(self, batch: int, level: int, unit: WorkUnit) -> Iterator[CombineTask]:
        """Yields the combinations of the partial results of a unit: one per worker with a block."""
        plan = self.plan
        (key,) = unit.outputs
        if key not in plan.batches[batch]:
            return
        cut, stage = plan.choices.cuts[unit.index], plan.choices.stages[unit.index]
        monoid = cut_options(plan.program, unit).monoid or "sum"
        base, layout = plan.batches[batch][key], final_layout(cut)
        for at in plan.mesh.workers:
            block = split_block(base, layout, plan.mesh, at)
            if block is None:
                continue
            sources = []
            for other in plan.mesh.workers:
                if any(
                    a != b and not isinstance(part, ReductionCut)
                    for a, b, part in zip(at, other, cut, strict=True)
                ):
                    continue
                computed = plan.computed(batch, unit, other)[0].get(key)
                if computed is not None:
                    name = ("level", batch, (stage, other), level)
                    position = self._positions(batch, (stage, other), level)[key]
                    sources.append(PieceSource(name, position, computed, block))
            name = ("combine", batch, (stage, at), unit.index)
            yield CombineTask(name, (stage, at), monoid, block, tuple(sources))

    def results(self, batch: int, key: Key) -> tuple[PieceSource, ...]:
        """Returns the pieces of the block of a result that a micro-batch computes."""
        bounds = self.plan.batches[batch].get(key)
        if bounds is None or key not in self.plan.unit_of:
            return ()
        return self.sources(batch, key, bounds, self.plan.workers[0])
