"""Random mesh plans, for differential tests: any cuts give the result of the whole function."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from structir.distributed.layouts import WorkerMesh
from structir.distributed.mesh_plan import MeshCuts, MeshPlan
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.planning import prepared
from structir.distributed.separate_entry import with_separate_entry
from structir.distributed.sharded import Sharded
from structir.distributed.unit_cuts import cut_options
from structir.distributed.work_units import work_units
from structir.ir.module import IRModule

MESHES = ((2,), (3,), (4,), (2, 2), (3, 2), (7,))


def random_mesh_program(
    module: IRModule, name: str, arguments: Sequence[Any], seed: int
) -> MeshProgram:
    """Returns a function with a random mesh, and random stages and cuts of its units.

    Raises StructIRError if the function cannot be planned."""
    source = random.Random(seed)
    original = Sharded(prepared(with_separate_entry(module, name), name), {})
    planner = original.prepared.planner(original.sizes(original.arguments(arguments, {})))
    shape = planner.shape
    mesh = WorkerMesh(source.choice(MESHES))
    units = work_units(planner.program)
    cuts = [source.choice(list(cut_options(planner.program, u).cuts(mesh))) for u in units]
    boundary = source.randrange(2 * len(units) + 1)  # above: one stage
    stages = [int(unit.index >= boundary) if boundary else 0 for unit in units]
    batches = min(source.choice([1, 1, 2, 3]), max(shape[0], 1)) if shape else 1
    choices = MeshCuts(mesh, tuple(cuts), tuple(stages), batches)
    return MeshProgram(original, MeshPlan(planner, choices, frozenset()))
