"""The plans that a search considers: meshes, pipelines, and the cheapest cuts of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, prod
from typing import Any

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.layout_search import LayoutSearch, UnitTime
from structir.distributed.layouts import WorkerMesh
from structir.distributed.mesh_plan import MeshCuts, required_values, result_keys
from structir.distributed.pinned_cuts import pinned_cuts, units_named
from structir.distributed.pipeline_stages import micro_batch_counts, pipeline_stages
from structir.distributed.plan_options import check_count
from structir.distributed.planner import Planner
from structir.distributed.simulation import SimulatedCost, simulate
from structir.distributed.unit_costs import CostTable, cost_table
from structir.distributed.work_units import Key, WorkUnit
from structir.errors import StructIRError
from structir.projections.boxes import Bounds
from structir.system.locks import cached_property

MOST_STAGES = 16
SLOWER = 1.5  # a pipeline that is slower by this factor is not refined
PRICES = (0.1, 1.0, 10.0)  # of all weights, in times of the fastest plan
MOST_PRICE = 1000.0  # with it, the plan with the least weights on a worker is chosen
CutRequest = int | str | Sequence[int | str | None] | None


@attrs.frozen(eq=False)
class SearchCandidate:
    """One plan of a search, with its simulated cost."""

    choices: MeshCuts
    cost: SimulatedCost
    feasible: bool  # whether its memory is within the bound


@attrs.frozen(eq=False)
class SearchSpace:
    """The plans that a search considers for one program."""

    planner: Planner
    units: tuple[WorkUnit, ...]
    weights: frozenset[Key]
    model: ClusterModel
    memory: float | None
    requests: Mapping[str, CutRequest]
    _bases: dict[int, dict[Key, Bounds]] = attrs.Factory(dict)
    _tables: dict[tuple[tuple[int, ...], int], CostTable] = attrs.Factory(dict)
    _times: dict[tuple[tuple[int, ...], int], dict[Any, UnitTime]] = attrs.Factory(dict)

    @cached_property
    def weight_tensors(self) -> frozenset[str]:
        """The names of the weights and constants in a plan."""
        inputs = self.planner.inputs
        return frozenset([inputs[key].name for key in self.weights])

    @cached_property
    def results(self) -> frozenset[Key]:
        """The tensors of the result."""
        return frozenset(result_keys(self.planner.program))

    def table(self, mesh: WorkerMesh, micro_batches: int) -> CostTable:
        """Returns the costs of the units on a mesh, for the largest micro-batch."""
        if micro_batches not in self._bases:
            last = micro_batches - 1
            self._bases[micro_batches] = required_values(
                self.planner, self.units, last, micro_batches
            )
        memo = (mesh.shape, micro_batches)
        if memo not in self._tables:
            base = self._bases[micro_batches]
            self._tables[memo] = cost_table(self.planner.program, self.units, base, mesh)
        return self._tables[memo]

    def layout_search(
        self, mesh: WorkerMesh, stages: tuple[int, ...], micro_batches: int, price: float = 0.0
    ) -> LayoutSearch:
        """Returns the search of cuts on a mesh."""
        table = self.table(mesh, micro_batches)
        pinned = pinned_cuts(self.requests, table)
        times = self._times.setdefault((mesh.shape, micro_batches), {})
        return LayoutSearch(
            table, stages, self.model, self.weights, self.results, price, pinned, times=times
        )

    def candidates(
        self,
        workers: int,
        mesh: Sequence[int] | None,
        stages: int | None,
        micro_batches: int | None,
    ) -> Iterator[SearchCandidate]:
        """Yields the best plan of each mesh, number of stages and of micro-batches.

        Pipelines with meshes of two axes are considered for the best number of micro-batches with
        one axis, and only where that is not much slower than the best plan."""
        check_count("workers", workers)
        best: SearchCandidate | None = None
        for count in [stages] if stages is not None else stage_counts(workers, len(self.units)):
            if count < 1 or workers % count:
                continue
            shapes = [tuple(mesh)] if mesh is not None else list(mesh_shapes(workers // count))
            own: list[SearchCandidate] = []
            for shape in shapes:
                bound = min([c.cost.seconds for c in [*own, best] if c and c.feasible], default=inf)
                batches = micro_batches
                if own and count > 1:  # the pipeline with a mesh of one axis
                    fastest = min(own, key=_rank)
                    if best is not None and _rank(fastest) > _rank(best, SLOWER):
                        break
                    batches = fastest.choices.micro_batches
                if prod(shape) * count == workers:
                    own += self._pipelines(WorkerMesh(shape), count, batches, bound)
            yield from own
            best = min([*own, *([] if best is None else [best])], key=_rank, default=None)

    def _pipelines(
        self, mesh: WorkerMesh, count: int, micro_batches: int | None, bound: float
    ) -> Iterator[SearchCandidate]:
        kinds, shape = self.planner.kinds, self.planner.shape
        counts = micro_batch_counts(kinds, shape, count)
        for batches in [micro_batches] if micro_batches is not None else counts:
            if batches > 1 and (not shape or not 1 <= batches <= shape[0]):
                raise StructIRError(
                    f"cannot split axis 0 of the result into {batches} micro-batches: its size is "
                    f"{shape[0] if shape else 1}; help: `micro_batches={shape[0] if shape else 1}`",
                    code="E0914",
                )
            stages = pipeline_stages(self.table(mesh, batches), count)
            if stages is not None:
                yield from self._priced(mesh, stages, batches, bound)

    def _priced(
        self, mesh: WorkerMesh, stages: tuple[int, ...], batches: int, bound: float
    ) -> Iterator[SearchCandidate]:
        """Yields the fastest plan. Where it exceeds the memory, and no plan of `bound` seconds is
        known, also yields the one with the least weights, and the fastest one that fits."""
        fastest = self._candidate(self.layout_search(mesh, stages, batches))
        yield fastest
        if fastest.feasible or self.memory is None or fastest.cost.seconds >= bound:
            return
        rate = fastest.cost.seconds / max(fastest.cost.weights, 1)
        least = self._candidate(self.layout_search(mesh, stages, batches, MOST_PRICE * rate))
        yield least
        for price in PRICES if least.feasible else ():
            candidate = self._candidate(self.layout_search(mesh, stages, batches, price * rate))
            if candidate.choices.cuts == least.choices.cuts:
                return
            if candidate.feasible:
                yield candidate
                return

    def _candidate(self, search: LayoutSearch) -> SearchCandidate:
        table = search.table
        batches = next(n for (_, n), each in self._tables.items() if each is table)
        choices = MeshCuts(table.mesh, search.solve(), search.stages, batches)
        cost = simulate(table, choices, self.model, self.weights)
        return SearchCandidate(choices, cost, self.fits(cost))

    def fits(self, cost: SimulatedCost) -> bool:
        """Whether the memory of a worker is within the bound."""
        return self.memory is None or cost.memory <= self.memory

    def unit_named(self, name: str) -> WorkUnit:
        """Returns the first unit that computes a value of this name."""
        return units_named(self.units, name)[0]


def _rank(candidate: SearchCandidate, factor: float = 1.0) -> tuple[bool, float]:
    """Returns the order of candidates: those that fit the memory, the fastest first."""
    return not candidate.feasible, candidate.cost.seconds * factor


def mesh_shapes(workers: int) -> Iterator[tuple[int, ...]]:
    """Yields the meshes of one or two axes; the first axis is the longer one."""
    yield (workers,)
    for second in range(2, workers):
        if workers % second == 0 and second <= workers // second:
            yield (workers // second, second)


def stage_counts(workers: int, units: int) -> list[int]:
    """Returns the numbers of pipeline stages to consider."""
    most = min(workers, units, MOST_STAGES)
    return [count for count in range(1, most + 1) if workers % count == 0]
