"""The costs of a unit under a cut: operations, required blocks and bytes, on sampled workers."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import attrs

from structir.distributed.layouts import (
    Coordinates,
    Layout,
    WorkerMesh,
    contains,
    intersection,
    part_of,
    split_block,
    volume,
)
from structir.distributed.unit_cuts import (
    CutOptions,
    ReductionCut,
    UnitCut,
    computed_layout,
    cut_options,
    final_layout,
    is_partial,
    output_layout,
    required_blocks,
    without_scatter,
    worker_blocks,
    worker_ranges,
)
from structir.distributed.unit_signature import unit_signature
from structir.distributed.work_units import Key, WorkUnit
from structir.ir.dtype import numpy_dtype
from structir.projections.boxes import Bounds, region
from structir.projections.execution_cost import StepCost
from structir.projections.program import Program, info_of
from structir.projections.region_propagation import required_regions
from structir.system.locks import cached_property


@attrs.frozen(eq=False)
class WorkerCost:
    """What one sampled worker computes for a unit, and the block of each input that it requires."""

    at: Coordinates
    count: int  # the number of workers that it represents
    needs: tuple[Bounds | None, ...]  # one per input of the unit
    blocks: tuple[Bounds | None, ...]  # one per output
    operations: float


@attrs.frozen(eq=False)
class UnitCost:
    """The cost of a unit under one cut."""

    workers: tuple[WorkerCost, ...]
    needs: tuple[int, ...]  # one per input: equal numbers for equal blocks of all workers
    reduced: tuple[int, int]  # the most bytes received to combine partial results, and peers
    reduced_total: int  # bytes received by all workers

    @cached_property
    def operations(self) -> float:
        """The most operations of a worker."""
        return max([w.operations for w in self.workers], default=0)


@attrs.frozen
class Transfer:
    """Bytes that the workers receive of one value: the most of one worker, its peers, and all."""

    received: int = 0
    peers: int = 0
    total: int = 0
    after: Layout = ()  # the layout that the workers hold after it


@attrs.frozen(eq=False)
class CostTable:
    """The costs of the units of a program on a mesh. Equal units share one evaluation."""

    program: Program
    units: tuple[WorkUnit, ...]
    base: Mapping[Key, Bounds]  # the required block of each value
    mesh: WorkerMesh
    signatures: tuple[int, ...]  # equal for equal units
    options: Mapping[int, CutOptions]
    _cuts: dict[int, tuple[UnitCut, ...]] = attrs.Factory(dict)
    _costs: dict[Hashable, UnitCost] = attrs.Factory(dict)
    _workers: dict[Hashable, tuple[WorkerCost, ...]] = attrs.Factory(dict)
    _needs: dict[Hashable, int] = attrs.Factory(dict)
    _transfers: dict[Hashable, Transfer] = attrs.Factory(dict)
    _layouts: dict[Hashable, Layout] = attrs.Factory(dict)
    _step_costs: dict[int, tuple[StepCost, ...]] = attrs.Factory(dict)
    _blocks: dict[Hashable, dict[Coordinates, Bounds | None]] = attrs.Factory(dict)

    def cuts(self, index: int) -> tuple[UnitCut, ...]:
        """Returns the cuts of a unit."""
        signature = self.signatures[index]
        if signature not in self._cuts:
            self._cuts[signature] = tuple(self.options_of(index).cuts(self.mesh))
        return self._cuts[signature]

    def options_of(self, index: int) -> CutOptions:
        """Returns the axes and loops along which a unit may be cut."""
        return self.options[self.signatures[index]]

    def value_bytes(self, key: Key) -> int:
        """Returns the bytes of the required block of a value."""
        return volume(self.base.get(key)) * self.itemsize(key)

    def itemsize(self, key: Any) -> int:
        """Returns the bytes of one element."""
        return int(numpy_dtype(info_of(key).dtype or "float32").itemsize)

    def cost(self, index: int, cut: UnitCut) -> UnitCost:
        """Returns the cost of a unit under a cut."""
        key = (self.signatures[index], cut)
        cost = self._costs.get(key)
        if cost is None:
            unit, computed = self.units[index], without_scatter(cut)
            workers = self._workers.get((key[0], computed))
            if workers is None:
                workers = self._workers[key[0], computed] = self._evaluate(unit, cut)
            needs = [
                self._needs.setdefault(tuple([w.needs[which] for w in workers]), len(self._needs))
                for which in range(len(unit.inputs))
            ]
            cost = UnitCost(workers, tuple(needs), *self._reduced(unit, cut))
            self._costs[key] = cost
        return cost

    def _evaluate(self, unit: WorkUnit, cut: UnitCut) -> tuple[WorkerCost, ...]:
        workers = []
        for at, count in self.mesh.samples:
            blocks = worker_blocks(
                self.program, unit, computed_layout(cut), self.base, self.mesh, at
            )
            ranges = worker_ranges(self.program, unit, cut, self.mesh, at)
            needs: Mapping[Key, Bounds] = {}
            if blocks and ranges is not None:
                needs = required_blocks(self.program, unit, blocks, ranges)
            operations = self._operations(unit, blocks, cut) if blocks and ranges is not None else 0
            outputs = tuple([blocks.get(key) for key in unit.outputs])
            inputs = tuple([needs.get(key) for key in unit.inputs])
            workers.append(WorkerCost(at, count, inputs, outputs, operations))
        return tuple(workers)

    def _operations(self, unit: WorkUnit, blocks: Mapping[Key, Bounds], cut: UnitCut) -> float:
        """Returns the operations of a worker, by the execution costs of its steps."""
        wanted = {key: region(*block) for key, block in blocks.items()}
        regions = required_regions(unit.steps, wanted) if len(unit.steps) > 1 else wanted
        total = sum(cost.over(regions) for cost in self._step_costs_of(unit))
        return total / prod(self._reduction_counts(cut))

    def _step_costs_of(self, unit: WorkUnit) -> tuple[StepCost, ...]:
        costs = self._step_costs.get(unit.index)
        if costs is None:
            costs = tuple([StepCost(self.program, step) for step in unit.steps])
            self._step_costs[unit.index] = costs
        return costs

    def _reduction_counts(self, cut: UnitCut) -> list[int]:
        """Returns the sizes of the mesh axes that split a reduction."""
        pairs = zip(cut, self.mesh.shape, strict=True)
        return [count for part, count in pairs if isinstance(part, ReductionCut)]

    def _reduced(self, unit: WorkUnit, cut: UnitCut) -> tuple[tuple[int, int], int]:
        """Returns the bytes that workers receive to combine partial results."""
        if not is_partial(cut):
            return (0, 0), 0
        group = prod(self._reduction_counts(cut))
        (key,) = unit.outputs
        if key not in self.base:
            return (0, 0), 0
        most = total = 0
        for at, count in self.mesh.samples:
            block = split_block(self.base[key], final_layout(cut), self.mesh, at)
            received = (group - 1) * volume(block) * self.itemsize(key)
            most, total = max(most, received), total + received * count
        return (most, group - 1), total

    def held_layout(self, index: int, output: int, cut: UnitCut) -> Layout:
        """Returns the layout in which the workers hold a result of a unit."""
        key = (self.signatures[index], output, cut)
        if key not in self._layouts:
            unit = self.units[index]
            first, shape = (self.program.shapes[unit.outputs[k]] for k in (0, output))
            self._layouts[key] = output_layout(final_layout(cut), shape, first)
        return self._layouts[key]

    def transfer(
        self, index: int, cut: UnitCut, which: int, layout: Layout, same_stage: bool
    ) -> Transfer:
        """Returns the bytes received to bring an input, held in a layout, to where it is used."""
        value = self.units[index].inputs[which]
        if value not in self.base:
            return Transfer(after=layout)
        cost = self.cost(index, cut)
        key = (cost.needs[which], self.base[value], self.itemsize(value), layout, same_stage)
        transfer = self._transfers.get(key)
        if transfer is None:
            needs = [(w.at, w.count, w.needs[which]) for w in cost.workers]
            moved = self.receive(value, layout, needs, same_stage)
            transfer = attrs.evolve(moved, after=self._gathered(value, layout, needs))
            self._transfers[key] = transfer
        return transfer

    def held(self, base: Bounds, layout: Layout) -> dict[Coordinates, Bounds | None]:
        """Returns the block of each sampled worker of a value."""
        key = (base, layout)
        blocks = self._blocks.get(key)
        if blocks is None:
            samples = self.mesh.samples
            blocks = {at: split_block(base, layout, self.mesh, at) for at, _ in samples}
            self._blocks[key] = blocks
        return blocks

    def receive(
        self,
        value: Key,
        layout: Layout,
        needs: Sequence[tuple[Coordinates, int, Bounds | None]],
        same_stage: bool,
    ) -> Transfer:
        """Returns the bytes received so that sampled workers have blocks of a value."""
        itemsize, base = self.itemsize(value), self.base[value]
        blocks = self.held(base, layout) if same_stage else {}
        most = peers = total = 0
        for at, count, need in needs:
            held = blocks.get(at)
            if need is None or contains(held, need):
                continue
            common = None if held is None else intersection(held, need)
            received = (volume(need) - volume(common)) * itemsize
            senders = count_blocks(base, layout, self.mesh, need) - (common is not None)
            most, total = max(most, received), total + received * count
            peers = max(peers, senders, 1)
        return Transfer(most, peers, total)

    def _gathered(
        self,
        value: Key,
        layout: Layout,
        needs: Sequence[tuple[Coordinates, int, Bounds | None]],
    ) -> Layout:
        """Returns the layout in which workers hold a value after they received blocks of it: split
        along fewer mesh axes where the blocks fill it."""
        options = itertools.product(*[(a,) if a is None else (a, None) for a in layout])
        for option in sorted(options, key=lambda o: sum(a is None for a in o)):
            blocks = self.held(self.base[value], option)
            if all(need is None or contains(blocks[at], need) for at, _, need in needs):
                return option
        return layout

    def input_bytes(self, index: int, cut: UnitCut, which: int) -> tuple[int, int]:
        """Returns the most bytes of an input that a worker requires, and the bytes of all."""
        itemsize = self.itemsize(self.units[index].inputs[which])
        workers = self.cost(index, cut).workers
        sizes = [(volume(w.needs[which]) * itemsize, w.count) for w in workers]
        return max([n for n, _ in sizes], default=0), sum(n * count for n, count in sizes)


def cost_table(
    program: Program, units: tuple[WorkUnit, ...], base: Mapping[Key, Bounds], mesh: WorkerMesh
) -> CostTable:
    """Returns the table of the costs of units on a mesh."""
    numbers: dict[Hashable, int] = {}
    keys = [unit_signature(program, unit, base) for unit in units]
    signatures = tuple([numbers.setdefault(key, len(numbers)) for key in keys])
    options: dict[int, CutOptions] = {}
    for unit, signature in zip(units, signatures, strict=True):
        if signature not in options:
            options[signature] = cut_options(program, unit)
    return CostTable(program, units, base, mesh, signatures, options)


def count_blocks(base: Bounds, layout: Layout, mesh: WorkerMesh, need: Bounds) -> int:
    """Returns the number of different blocks of a layout that a block overlaps."""
    counts = 1
    for axis in {a for a in layout if a is not None}:
        parts = prod([n for a, n in zip(layout, mesh.shape, strict=True) if a == axis])
        whole = (base[0][axis], base[1][axis])
        counts *= _count_parts(whole, parts, (need[0][axis], need[1][axis]))
    return counts


@lru_cache(1 << 16)
def _count_parts(whole: tuple[int, int], parts: int, need: tuple[int, int]) -> int:
    """Returns the number of parts of an axis that a range of positions overlaps, at least 1."""
    (start, stop), (low, high) = whole, need
    width = max(stop - start, 1)
    first = max((low - start) * parts // width - 1, 0)
    last = min(-(-(high - start) * parts // width) + 1, parts)
    blocks = [part_of(whole, k, parts) for k in range(first, last)]
    return max(sum(max(a, low) < min(b, high) for a, b in blocks), 1)
