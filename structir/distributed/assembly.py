"""Putting together what shards make: blocks into results, parts of reductions into blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from structir.distributed.plan import Plan
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.projections.boxes import Bounds
from structir.projections.program import leaves

np = lazy_module("numpy")

Value = Any


def slices(bounds: Bounds) -> tuple[slice, ...]:
    """A block as an index of an array."""
    return tuple([slice(a, b) for a, b in zip(*bounds, strict=True)])


def tree(parts: Sequence[Value], combine: Callable[[Value, Value], Value]) -> Value:
    """Values combined in pairs, in order."""
    while len(parts) > 1:
        pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
        parts = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def combined(name: str, first: Sequence[Value], second: Sequence[Value]) -> tuple[Value, ...]:
    """Two parts of the same blocks made one, in their own dtype."""
    function = getattr(np, name)
    pairs = zip(first, second, strict=True)
    return tuple([function(a, b).astype(a.dtype, copy=False) for a, b in pairs])


def cells(plan: Plan, made: Sequence[Value], combine: Callable[..., Value]) -> list[Value]:
    """What the shards of each cell of the grid have made, combined where a reduction is cut."""
    return [
        tree(made[first : first + plan.pieces], lambda a, b: combine(plan.combine, a, b))
        for first in range(0, len(made), plan.pieces)
    ]


def empty(plan: Plan) -> list[Value]:
    """Arrays for the results, to be filled cell by cell."""
    return [np.empty(t.shape, t.dtype) for t in plan.results]


def fill(plan: Plan, cell: int, blocks: Sequence[Value], results: Sequence[Value]) -> None:
    """Put the blocks of a cell where they belong."""
    wanted = plan.shards[cell * plan.pieces].results
    made = iter(blocks)
    for result, bounds in zip(results, wanted, strict=True):
        if bounds is not None:
            result[slices(bounds)] = next(made)


def packed(plan: Plan, results: Iterator[Value]) -> Value:
    """The results of a function as it gives them: one, or a tuple of them."""
    keys = dict.fromkeys(leaves(plan.program.result))  # a value may be given several times
    return _packed(plan.program.result, dict(zip(keys, results, strict=True)))


def _packed(tree: Any, results: Mapping[Hashable, Value]) -> Value:
    if isinstance(tree, tuple) and (not tree or not isinstance(tree[0], Expr)):
        return tuple([_packed(branch, results) for branch in tree])
    return results[tree]
