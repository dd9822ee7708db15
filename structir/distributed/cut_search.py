"""Searches the cuts of a program for a number of workers: meshes, pipelines, and each value."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from structir.distributed.cluster_model import ClusterModel
from structir.distributed.dtype_instances import at_dtypes
from structir.distributed.mesh_plan import MeshPlan
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.plan_options import checked_sizes
from structir.distributed.planning import prepared_at
from structir.distributed.search_report import SearchReport
from structir.distributed.search_space import CutRequest, SearchCandidate, SearchSpace
from structir.distributed.sharded import Sharded
from structir.distributed.weight_names import weight_keys
from structir.distributed.work_units import work_units
from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule


def search(
    program: IRModule | Function,
    name: str = "main",
    *,
    workers: int,
    sizes: Mapping[str, Any] | None = None,
    memory: float | None = None,
    weights: Sequence[str] = (),
    model: ClusterModel | None = None,
    cuts: Mapping[str, CutRequest] | None = None,
    mesh: Sequence[int] | None = None,
    stages: int | None = None,
    micro_batches: int | None = None,
    dtypes: Mapping[str, str] | None = None,
) -> SearchReport:
    """Returns the cheapest simulated plan of a function for a number of workers, explained.

    The search chooses a number of pipeline stages and of micro-batches, a mesh of one or two axes
    for each stage, and the cut of every value; `stages`, `micro_batches`, `mesh` and `cuts` fix a
    choice. `cuts` maps names of values to an axis, to the name of a reduction loop (`"k"`), or to
    None (replicated); a sequence has one entry for each mesh axis. `sizes` gives the symbolic dims
    and the row lengths of ragged parameters, `weights` the parameters that are placed once and not
    sent at each call, and `model` the simulated workers. `memory` bounds the bytes on a worker, and
    `dtypes` gives the dtype variables. Raises StructIRError where no plan keeps it.
    """
    start = time.process_time()
    sizes = checked_sizes(sizes)
    module = program if isinstance(program, IRModule) else IRModule({name: program})
    ready = prepared_at(at_dtypes(module, name, dtypes or {}), name, sizes)
    planner = ready.planner(sizes)
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
    runnable = MeshProgram(Sharded(ready, {}), plan, tuple(weights))
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
