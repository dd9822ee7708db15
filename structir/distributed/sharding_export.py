"""Exports the layouts of a plan as plain data: JAX's PartitionSpec and torch's placements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from structir.distributed.layouts import (
    Coordinates,
    Layout,
    PartialState,
    ShardedState,
    State,
    contains,
    hull,
    split_block,
    states,
)
from structir.distributed.mesh_plan import MeshPlan
from structir.distributed.work_units import Key, key_name
from structir.projections.boxes import Bounds

SpecEntry = str | tuple[str, ...] | None
TORCH_REDUCTIONS = {"sum": "sum", "prod": "product", "max": "max", "min": "min"}


def partition_specs(plan: MeshPlan) -> dict[str, tuple[SpecEntry, ...]]:
    """Returns the arguments of `jax.sharding.PartitionSpec` for every parameter and named value.

    The entry of an axis is the mesh axis that splits it, several of them, or None. Mesh axes are
    named `w0`, `w1`, ... A parameter that workers require in overlapping blocks is replicated.
    Pipeline stages have separate meshes: see `plan.choices.stages`.
    """
    names = plan.mesh.names
    specs = {}
    for name, key, layout in _layouts(plan):
        entries = []
        for axis in range(len(plan.program.shapes[key])):
            along = tuple([n for n, a in zip(names, layout, strict=True) if a == axis])
            entries.append(along[0] if len(along) == 1 else along or None)
        specs[name] = tuple(entries)
    return specs


def dtensor_placements(plan: MeshPlan) -> dict[str, tuple[str, ...]]:
    """Returns torch's DTensor placements for every parameter and named value, as text.

    There is one for each mesh axis: `Shard(dim)`, `Replicate()` or `Partial('sum')`. A value whose
    reduction is split is partial as it is computed; `combined_placements` has the placements
    after its combination.
    """
    placements = {}
    for name, key, layout in _layouts(plan):
        computed = plan.computed_states(key) if key in plan.unit_of else _states(layout)
        placements[name] = tuple(map(_placement, computed))
    return placements


def combined_placements(plan: MeshPlan) -> dict[str, tuple[str, ...]]:
    """Returns torch's placements of the partial values after their combination."""
    return {
        name: tuple(map(_placement, plan.states(key)))
        for name, key, _ in _layouts(plan)
        if key in plan.unit_of
        and any(isinstance(state, PartialState) for state in plan.computed_states(key))
    }


def _placement(state: State) -> str:
    match state:
        case ShardedState(axis):
            return f"Shard({axis})"
        case PartialState(monoid):
            return f"Partial({TORCH_REDUCTIONS.get(monoid, monoid)!r})"
    return "Replicate()"


def _states(layout: Layout) -> tuple[State, ...]:
    return states(layout, [None] * len(layout))


def _layouts(plan: MeshPlan) -> Iterator[tuple[str, Any, Layout]]:
    """Yields the names of parameters and computed values, their keys and layouts. The second value
    of one name, as of a function that is called twice, is numbered: `y_1`."""
    counts: Counter[str] = Counter()
    for key in plan.parameters:
        yield key_name(key), key, parameter_layout(plan, key)
        counts[key_name(key)] += 1
    for unit in plan.units:
        for key in unit.outputs:
            name = key_name(key)
            if name[0] != "(":
                yield name if not counts[name] else f"{name}_{counts[name]}", key, plan.layout(key)
                counts[name] += 1


def parameter_layout(plan: MeshPlan, key: Key) -> Layout:
    """Returns the layout with the most splits whose blocks contain what the workers require."""
    required: dict[Coordinates, Bounds] = {}
    for unit in plan.units:
        for at in plan.mesh.workers:
            need = plan.needs(0, unit, at).get(key)
            if need is not None:
                before = required.get(at)
                required[at] = need if before is None else hull(before, need)
    shape = plan.program.shapes[key]
    whole: Bounds = ((0,) * len(shape), shape)
    layout: list[int | None] = [None] * len(plan.mesh.shape)
    for position in range(len(layout)):
        for axis in range(len(shape)):
            option = (*layout[:position], axis, *layout[position + 1 :])
            if _contains_all(plan, whole, option, required):
                layout[position] = axis
                break
    return tuple(layout)


def _contains_all(
    plan: MeshPlan, whole: Bounds, layout: Sequence[int | None], required: dict[Coordinates, Bounds]
) -> bool:
    blocks = {at: split_block(whole, tuple(layout), plan.mesh, at) for at in plan.mesh.workers}
    return all(contains(blocks[at], need) for at, need in required.items())
