"""Iterations of the loops of a kernel that blocks of its results require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.ir import dims
from structir.ir.dims import Sym
from structir.projections.affine_forms import values
from structir.projections.boxes import Bounds, region
from structir.projections.index_sets import LoopNest
from structir.projections.kernels.kernel_spec import KernelProjection, entry_of
from structir.projections.kernels.paths import Visit
from structir.projections.loop_nests import LoopNestBuilder
from structir.projections.position_sets import PositionSet

Iterations = tuple[int, int]  # the first, and the last exclusive


def required_iterations(
    projection: KernelProjection,
    shapes: Sequence[tuple[int, ...]],
    sizes: Mapping[Sym, int],
    results: Sequence[Bounds | None],
) -> dict[Sym, Iterations]:
    """Returns the range of iterations of each loop that blocks of the results depend on.

    Loops without required iterations have an empty range. `shapes` are those of the results.
    """
    ranges: dict[Sym, Iterations] = {}
    memo: dict[object, list[tuple[PositionSet, ...]]] = {}
    for visit in projection.visits:
        bounds = results[visit.result]
        if bounds is None:
            continue
        for index, reach in _of_visit(projection, visit, shapes[visit.result], sizes, bounds, memo):
            first, last = ranges.get(index, (reach.start, reach.stop))
            ranges[index] = min(first, reach.start), max(last, reach.stop)
    return ranges


def _of_visit(
    projection: KernelProjection,
    visit: Visit,
    shape: tuple[int, ...],
    sizes: Mapping[Sym, int],
    bounds: Bounds,
    memo: dict[object, list[tuple[PositionSet, ...]]],
) -> list[tuple[Sym, PositionSet]]:
    """Returns the iterations of the loops of one definition."""
    store_vars = [loop.index for loop in visit.store.loops if loop.index is not None]
    index_vars = tuple(dict.fromkeys([*store_vars, *visit.inner]))
    numbers = {s: k for k, s in enumerate(index_vars)}
    builder = LoopNestBuilder(projection.extents, sizes, numbers)
    key = (id(visit.store), index_vars, visit.conditions)
    if key not in memo:
        memo[key] = _points(builder, visit, shape, bounds)
    return [
        (index, values(builder.form(value), sets))
        for sets in memo[key]
        for index, value in visit.iterations
    ]


def _points(
    builder: LoopNestBuilder, visit: Visit, shape: tuple[int, ...], bounds: Bounds
) -> list[tuple[PositionSet, ...]]:
    """Returns the points of the index variables at which a store is in a block."""
    full = tuple([PositionSet(0, builder.number(builder.extents[s])) for s in builder.numbers])
    if not all(full):
        return []
    indices = zip(visit.store.indices, shape, strict=True)
    write = builder.access(tuple([entry_of(index, size) for index, size in indices]))
    conditions = tuple([builder.condition(c, full) for c in visit.conditions])
    loops = LoopNest(full, {}, (write,), conditions)
    return [p.sets for box in region(*bounds).boxes for p in loops.points(write, box)]


def number_of(dim: dims.Dim, sizes: Mapping[Sym, int]) -> int:
    """Returns the value of a dim at concrete sizes."""
    return dim if isinstance(dim, int) else dims.evaluate(dim, dict(sizes))
