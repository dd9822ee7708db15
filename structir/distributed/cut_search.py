"""Searches the cuts of a program for a number of workers: meshes, pipelines, and each value."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import prod

import attrs

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.layout_search import LayoutSearch
from structir.distributed.layouts import WorkerMesh
from structir.distributed.mesh_plan import MeshCuts, MeshPlan, required_values, result_keys
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.pinned_cuts import pinned_cuts, units_named
from structir.distributed.pipeline_stages import micro_batch_counts, pipeline_stages
from structir.distributed.planning import Planner, make_planner, prepared
from structir.distributed.search_report import SearchCandidate, SearchReport
from structir.distributed.sharded import Sharded
from structir.distributed.simulation import SimulatedCost, simulate
from structir.distributed.unit_costs import CostTable, cost_table
from structir.distributed.weight_names import weight_keys
from structir.distributed.work_units import Key, WorkUnit, work_units
from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.projections.boxes import Bounds

MESH_AXES = 2
PRICES = (0.1, 1.0, 10.0, 1000.0)  # of all weights, in times of the fastest plan
CutRequest = int | str | Sequence[int | str | None] | None


def search(
    program: IRModule | Function,
    name: str = "main",
    *,
    workers: int,
    sizes: Mapping[str, int] | None = None,
    memory: float | None = None,
    weights: Sequence[str] = (),
    model: ClusterModel | None = None,
    cuts: Mapping[str, CutRequest] | None = None,
    mesh: Sequence[int] | None = None,
    stages: int | None = None,
    micro_batches: int | None = None,
) -> SearchReport:
    """Returns the cheapest simulated plan of a function for a number of workers, explained.

    The search chooses a number of pipeline stages and of micro-batches, a mesh of one or two axes
    for each stage, and the cut of every value; `stages`, `micro_batches`, `mesh` and `cuts` fix a
    choice. `cuts` maps names of values to an axis, to the name of a reduction loop (`"k"`), or to
    None (replicated); a sequence has one entry for each mesh axis. `sizes` gives the symbolic dims,
    `weights` the parameters that are placed once and not sent at each call, and `model` the
    simulated workers. `memory` bounds the bytes on a worker. Raises StructIRError where no plan
    keeps it.
    """
    start = time.process_time()
    module = program if isinstance(program, IRModule) else IRModule({name: program})
    module = prepared(module, name)
    function = module.functions[name]
    assert isinstance(function, Function)
    planner = make_planner(function, dict(sizes or {}), name)
    space = SearchSpace(
        planner,
        work_units(planner.program),
        weight_keys(planner, weights),
        model or ClusterModel(),
        memory,
        dict(cuts or {}),
    )
    candidates = list(space.candidates(workers, mesh, stages, micro_batches))
    feasible = sorted([c for c in candidates if c.feasible], key=lambda c: c.cost.seconds)
    if not feasible:
        raise _infeasible(name, workers, memory, candidates)
    plan = MeshPlan(planner, feasible[0].choices, space.weight_tensors)
    runnable = MeshProgram(Sharded(module, name, {}), plan, tuple(weights))
    seconds = time.process_time() - start
    return SearchReport(runnable, tuple(candidates), feasible[0], space, seconds)


def _infeasible(
    name: str, workers: int, memory: float | None, candidates: Sequence[SearchCandidate]
) -> StructIRError:
    if not candidates:
        return StructIRError(
            f"{name}: no mesh of {workers} workers; help: choose `mesh=` and `stages=` whose "
            "product is the number of workers",
            code="E0913",
        )
    least = min(c.cost.memory for c in candidates)
    return StructIRError(
        f"{name}: no plan for {workers} workers keeps each within {memory:,.0f} bytes; the least "
        f"peak is {least:,} bytes; help: `memory={least}`, or more than {workers} workers",
        code="E0911",
    )


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
            self._bases[micro_batches] = required_values(self.planner, last, micro_batches)
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
        return LayoutSearch(table, stages, self.model, self.weights, self.results, price, pinned)

    def candidates(
        self,
        workers: int,
        mesh: Sequence[int] | None,
        stages: int | None,
        micro_batches: int | None,
    ) -> Iterator[SearchCandidate]:
        """Yields the best plan of each mesh, number of stages and of micro-batches."""
        if workers < 1:
            raise StructIRError(
                f"workers must be a positive integer, found {workers}", code="E0903"
            )
        for count in [stages] if stages is not None else stage_counts(workers, len(self.units)):
            if count < 1 or workers % count:
                continue
            for shape in [tuple(mesh)] if mesh is not None else mesh_shapes(workers // count):
                if prod(shape) * count == workers:
                    yield from self._pipelines(WorkerMesh(shape), count, micro_batches)

    def _pipelines(
        self, mesh: WorkerMesh, count: int, micro_batches: int | None
    ) -> Iterator[SearchCandidate]:
        kinds, shape = self.planner.kinds, self.planner.first.shape
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
                yield from self._priced(mesh, stages, batches)

    def _priced(
        self, mesh: WorkerMesh, stages: tuple[int, ...], batches: int
    ) -> Iterator[SearchCandidate]:
        """Yields the fastest plan; where its memory exceeds the bound, also one that fits."""
        fastest = self._candidate(self.layout_search(mesh, stages, batches))
        yield fastest
        if fastest.feasible or self.memory is None:
            return
        rate = fastest.cost.seconds / max(fastest.cost.weights, 1)
        seen = {fastest.choices.cuts}
        for price in PRICES:
            candidate = self._candidate(self.layout_search(mesh, stages, batches, price * rate))
            if candidate.choices.cuts not in seen:
                yield candidate
            seen.add(candidate.choices.cuts)
            if candidate.feasible:
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


MOST_STAGES = 16
