"""Simulates a plan on modelled workers: time, bytes sent, and peak memory of a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.layouts import Layout, contains, hull, split_block, volume
from structir.distributed.mesh_plan import MeshCuts
from structir.distributed.unit_costs import CostTable, Transfer, WorkerCost
from structir.distributed.unit_cuts import UnitCut, final_layout, is_partial, output_layout
from structir.distributed.work_units import Key
from structir.projections.boxes import Bounds
from structir.system.locks import cached_property


@attrs.frozen
class SimulatedCost:
    """The simulated cost of one call of a plan."""

    seconds: float
    compute: float  # seconds of one worker, on the longest path
    transfer: float
    bytes_sent: int  # of inputs, partial results and exchanged blocks, to all workers
    memory: int  # peak bytes of a worker
    weights: int  # bytes of weights on a worker, part of `memory`
    stage_seconds: tuple[float, ...]  # of one micro-batch


@attrs.frozen(eq=False)
class Simulation:
    """The simulation of one plan: level by level, as the plan is executed.

    Figures are those of the sampled workers of the table, which bound the others.
    """

    table: CostTable
    choices: MeshCuts
    model: ClusterModel
    weights: frozenset[Key]

    @cached_property
    def producer(self) -> dict[Key, int]:
        """The unit that computes each value."""
        return {key: unit.index for unit in self.table.units for key in unit.outputs}

    def cut(self, index: int) -> UnitCut:
        """Returns the cut of a unit."""
        return self.choices.cuts[index]

    def layout(self, key: Key) -> Layout:
        """Returns the layout of a computed value."""
        unit = self.table.units[self.producer[key]]
        shapes = self.table.program.shapes
        layout = final_layout(self.cut(unit.index))
        return output_layout(layout, shapes[key], shapes[unit.outputs[0]])

    def workers(self, index: int) -> tuple[WorkerCost, ...]:
        """Returns the costs of the sampled workers for a unit."""
        return self.table.cost(index, self.cut(index)).workers

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The level of each unit, as in the plan."""
        levels: list[int] = []
        for unit in self.table.units:
            after = [0]
            for which, key in enumerate(unit.inputs):
                if key in self.producer:
                    after.append(levels[self.producer[key]] + self._moves(unit.index, which))
            levels.append(max(after))
        return tuple(levels)

    def _moves(self, index: int, which: int) -> bool:
        key = self.table.units[index].inputs[which]
        producer, stages = self.producer[key], self.choices.stages
        if stages[producer] != stages[index] or is_partial(self.cut(producer)):
            return True
        base, layout, mesh = self.table.base.get(key), self.layout(key), self.table.mesh
        if base is None:
            return False
        needs = [(w.at, w.needs[which]) for w in self.workers(index)]
        return any(
            need is not None and not contains(split_block(base, layout, mesh, at), need)
            for at, need in needs
        )

    @cached_property
    def groups(self) -> dict[tuple[int, int], list[int]]:
        """The units of each stage and level."""
        groups: dict[tuple[int, int], list[int]] = {}
        for unit in self.table.units:
            place = (self.choices.stages[unit.index], self.levels[unit.index])
            groups.setdefault(place, []).append(unit.index)
        return groups

    def received(self, stage: int, indices: Sequence[int]) -> dict[Key, Transfer]:
        """Returns the bytes that workers receive before the units of a level, by value. Units of a
        level share what they receive."""
        computed = {k for index in indices for k in self.table.units[index].outputs}
        transfers: dict[Key, Transfer] = {}
        for key, needs in self._needs(indices).items():
            if key in computed or key in self.weights or key not in self.table.base:
                continue
            blocks = [(at, count, need) for (at, count), need in needs.items()]
            producer = self.producer.get(key)
            rank = (None,) * len(self.table.mesh.shape)
            layout = rank if producer is None else self.layout(key)
            same = producer is not None and self.choices.stages[producer] == stage
            transfers[key] = self.table.receive(key, layout, blocks, same)
        return transfers

    def _needs(
        self, indices: Sequence[int]
    ) -> dict[Key, dict[tuple[tuple[int, ...], int], Bounds]]:
        """Returns the blocks of values that the sampled workers require for some units."""
        needs: dict[Key, dict[tuple[tuple[int, ...], int], Bounds]] = {}
        for index in indices:
            for worker in self.workers(index):
                for key, need in zip(self.table.units[index].inputs, worker.needs, strict=True):
                    if need is not None:
                        own = needs.setdefault(key, {})
                        place = (worker.at, worker.count)
                        own[place] = hull(own[place], need) if place in own else need
        return needs

    def level_cost(self, stage: int, indices: Sequence[int]) -> tuple[float, float, int]:
        """Returns the seconds of computation and of transfer of a level, and the bytes sent."""
        model = self.model
        compute = sum(
            model.compute_time(self.table.cost(i, self.cut(i)).operations) for i in indices
        )
        transfers = list(self.received(stage, indices).values())
        combined = []
        for index in indices:
            cost = self.table.cost(index, self.cut(index))
            if is_partial(self.cut(index)):
                combined.append(Transfer(*cost.reduced, cost.reduced_total))
        seconds = sum(
            model.transfer_time(sum(t.received for t in group), max([t.peers for t in group] + [0]))
            for group in (transfers, combined)
        )
        return compute, seconds, sum(t.total for t in (*transfers, *combined))

    def weight_bytes(self) -> dict[int, dict[tuple[int, ...], int]]:
        """Returns the bytes of weights of each sampled worker, by stage."""
        held: dict[int, dict[tuple[int, ...], int]] = {}
        for stage in range(self.choices.stage_count):
            stages = self.choices.stages
            indices = [unit.index for unit in self.table.units if stages[unit.index] == stage]
            totals = held.setdefault(stage, {})
            for key, needs in self._needs(indices).items():
                for (at, _), need in needs.items():
                    size = volume(need) * self.table.itemsize(key) * (key in self.weights)
                    totals[at] = totals.get(at, 0) + size
        return held

    def activation_bytes(self) -> dict[int, int]:
        """Returns the peak bytes of values other than weights on a worker, by stage: the operands
        and the results of a unit, and the values that later units use."""
        stages, itemsize = self.choices.stages, self.table.itemsize
        last_use = {key: unit.index for unit in self.table.units for key in unit.inputs}
        live: dict[int, dict[Key, int]] = {}
        peak: dict[int, int] = {}
        for unit in self.table.units:
            index, stage = unit.index, stages[unit.index]
            own, workers = live.setdefault(stage, {}), self.workers(index)
            for which, key in enumerate(unit.inputs):
                if key not in self.weights:
                    size = max([volume(w.needs[which]) for w in workers]) * itemsize(key)
                    own[key] = max(own.get(key, 0), size)
            for number, key in enumerate(unit.outputs):
                own[key] = max([volume(w.blocks[number]) for w in workers]) * itemsize(key)
            peak[stage] = max(peak.get(stage, 0), sum(own.values()))
            for key in [k for k in own if last_use.get(k, index) <= index]:
                del own[key]
        return peak

    def run(self) -> SimulatedCost:
        """Returns the cost of a call."""
        stages, count = self.choices.stage_count, self.choices.micro_batches
        compute, transfer, sent = [0.0] * stages, [0.0] * stages, 0
        for (stage, _), indices in self.groups.items():
            computing, moving, size = self.level_cost(stage, indices)
            compute[stage] += computing
            transfer[stage] += moving
            sent += size * count
        seconds = [a + b for a, b in zip(compute, transfer, strict=True)]
        slowest = max(range(stages), key=lambda stage: seconds[stage])
        weights, values = self.weight_bytes(), self.activation_bytes()
        held = {stage: max(each.values(), default=0) for stage, each in weights.items()}
        return SimulatedCost(
            sum(seconds) + (count - 1) * seconds[slowest],
            sum(compute) + (count - 1) * compute[slowest],
            sum(transfer) + (count - 1) * transfer[slowest],
            sent,
            max([held[s] + values.get(s, 0) for s in held], default=0),
            max(held.values(), default=0),
            tuple(seconds),
        )


def simulate(
    table: CostTable,
    choices: MeshCuts,
    model: ClusterModel,
    weights: frozenset[Key] | Mapping[Key, str] = frozenset(),
) -> SimulatedCost:
    """Returns the simulated cost of a plan."""
    return Simulation(table, choices, model, frozenset(weights)).run()
