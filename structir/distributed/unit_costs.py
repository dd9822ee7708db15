"""The costs of a unit under a cut: operations, required blocks and bytes, on sampled workers."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
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
    worker_blocks,
    worker_ranges,
)
from structir.distributed.unit_signature import unit_signature
from structir.distributed.work_units import Key, WorkUnit
from structir.ir.dtype import numpy_dtype
from structir.projections.boxes import Bounds, region
from structir.projections.execution_cost import step_cost
from structir.projections.program import Program, info_of
from structir.projections.region_propagation import required_regions


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
    _costs: dict[Hashable, UnitCost] = attrs.Factory(dict)
    _transfers: dict[Hashable, Transfer] = attrs.Factory(dict)
    _layouts: dict[Hashable, Layout] = attrs.Factory(dict)

    def cuts(self, index: int) -> tuple[UnitCut, ...]:
        """Returns the cuts of a unit."""
        return tuple(self.options_of(index).cuts(self.mesh))

    def options_of(self, index: int) -> CutOptions:
        """Returns the axes and loops along which a unit may be cut."""
        return self.options[self.signatures[index]]

    def input_size(self, index: int, which: int) -> int:
        """Returns the number of required elements of an input."""
        return volume(self.base.get(self.units[index].inputs[which]))

    def value_bytes(self, key: Key) -> int:
        """Returns the bytes of the required block of a value."""
        return volume(self.base.get(key)) * self.itemsize(key)

    def itemsize(self, key: Any) -> int:
        """Returns the bytes of one element."""
        return int(numpy_dtype(info_of(key).dtype or "float32").itemsize)

    def cost(self, index: int, cut: UnitCut) -> UnitCost:
        """Returns the cost of a unit under a cut."""
        key = (self.signatures[index], cut)
        if key not in self._costs:
            self._costs[key] = self._evaluate(self.units[index], cut)
        return self._costs[key]

    def _evaluate(self, unit: WorkUnit, cut: UnitCut) -> UnitCost:
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
        return UnitCost(tuple(workers), *self._reduced(unit, cut))

    def _operations(self, unit: WorkUnit, blocks: Mapping[Key, Bounds], cut: UnitCut) -> float:
        """Returns the operations of a worker, by the execution costs of its steps."""
        wanted = {key: region(*block) for key, block in blocks.items()}
        regions = required_regions(unit.steps, wanted) if len(unit.steps) > 1 else wanted
        total = sum(step_cost(self.program, step, regions) for step in unit.steps)
        return total / prod(self._reduction_counts(cut))

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
        key = (self.signatures[index], cut, which, layout, same_stage)
        if key not in self._transfers:
            self._transfers[key] = self._transfer(index, cut, which, layout, same_stage)
        return self._transfers[key]

    def _transfer(
        self, index: int, cut: UnitCut, which: int, layout: Layout, same_stage: bool
    ) -> Transfer:
        value = self.units[index].inputs[which]
        if value not in self.base:
            return Transfer(after=layout)
        needs = [(w.at, w.count, w.needs[which]) for w in self.cost(index, cut).workers]
        moved = self.receive(value, layout, needs, same_stage)
        return attrs.evolve(moved, after=self._gathered(value, layout, needs))

    def receive(
        self,
        value: Key,
        layout: Layout,
        needs: Sequence[tuple[Coordinates, int, Bounds | None]],
        same_stage: bool,
    ) -> Transfer:
        """Returns the bytes received so that sampled workers have blocks of a value."""
        itemsize, base = self.itemsize(value), self.base[value]
        most = peers = total = 0
        for at, count, need in needs:
            held = split_block(base, layout, self.mesh, at) if same_stage else None
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
            blocks = [split_block(self.base[value], option, self.mesh, at) for at, _, _ in needs]
            if all(
                need is None or contains(block, need)
                for block, (_, _, need) in zip(blocks, needs, strict=True)
            ):
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
        low, high = need[0][axis], need[1][axis]
        width = max(whole[1] - whole[0], 1)
        first = max((low - whole[0]) * parts // width - 1, 0)
        last = min(-(-(high - whole[0]) * parts // width) + 1, parts)
        blocks = [part_of(whole, k, parts) for k in range(first, last)]
        counts *= max(sum(max(a, low) < min(b, high) for a, b in blocks), 1)
    return counts
