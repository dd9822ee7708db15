"""Assembles the outputs of shards: blocks into results, partial reductions into blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from structir.distributed.plan import Plan
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.projections.program import Program, leaves

np = lazy_module("numpy")

Value = Any


def slices(bounds: Bounds) -> tuple[slice, ...]:
    """Returns a block as an array index."""
    return tuple([slice(a, b) for a, b in zip(*bounds, strict=True)])


def reduce_pairwise(parts: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Reduces values pairwise in a balanced tree, in order."""
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def combine_partials(
    name: str, first: Sequence[Value], second: Sequence[Value]
) -> tuple[Value, ...]:
    """Combines two partial results of the same blocks, in their dtype."""
    function = getattr(np, name)
    pairs = zip(first, second, strict=True)
    return tuple([function(a, b).astype(a.dtype, copy=False) for a, b in pairs])


def reduce_cells(
    plan: Plan, outputs: Sequence[Value], combine: Callable[..., Value]
) -> list[Value]:
    """Returns the outputs of each grid cell, combined where a reduction is split."""
    return [
        reduce_pairwise(
            outputs[first : first + plan.pieces], lambda a, b: combine(plan.combine, a, b)
        )
        for first in range(0, len(outputs), plan.pieces)
    ]


def allocate_results(plan: Plan) -> list[Value]:
    """Allocates uninitialized arrays for the results."""
    return [np.empty(t.shape, t.dtype) for t in plan.results]


def store_blocks(plan: Plan, cell: int, blocks: Sequence[Value], results: Sequence[Value]) -> None:
    """Copies the blocks of a grid cell into the results."""
    block_bounds = plan.shards[cell * plan.pieces].results
    computed = iter(blocks)
    for result, bounds in zip(results, block_bounds, strict=True):
        if bounds is not None:
            result[slices(bounds)] = next(computed)


def pack_results(program: Program, results: Iterable[Value], others: Sequence[Value]) -> Value:
    """Returns results in the structure of the function's result: a tensor or nested tuples.

    `others` are the fields that are no tensors, in order."""
    keys = dict.fromkeys(leaves(program.result))  # a tuple may repeat a value
    return _packed(program.result, dict(zip(keys, results, strict=True)), iter(others))


def _packed(tree: Any, results: Mapping[Hashable, Value], others: Iterator[Value]) -> Value:
    if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
        return tuple([_packed(branch, results, others) for branch in tree])
    return next(others) if tree is None else results[tree]
