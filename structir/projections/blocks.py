"""Evaluates scalar expressions over large arrays block by block.

Intermediate values of a block stay in cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from math import prod
from typing import Any

from structir.lazy import lazy_module
from structir.projections.scalar_expr import LoopIndex, OperandElement, ScalarExpr, ScalarOp, walk
from structir.projections.values import EvaluationPoint, evaluate, is_own

np = lazy_module("numpy")

Array = Any
BLOCK = 1 << 17  # elements
FEWEST = 4  # intermediate arrays, which are worth the copy of each block
OWN_COST = 4  # arrays of a function that NumPy lacks
LEAST = 1 << 18  # elements of arrays that are evaluated in blocks


def evaluate_in_blocks(expr: ScalarExpr, at: EvaluationPoint) -> Array:
    """Returns the value of a scalar expression, as `evaluate` does."""
    if _most_elements(at) < LEAST:  # most calls, which need no walk over the expression
        return evaluate(expr, at)
    arrays = _arrays_in(expr, at)
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    size = prod(shape)
    if size < LEAST or _cost(expr) < FEWEST or {a.ndim for a in arrays} - {0, len(shape)}:
        return evaluate(expr, at)
    axis = next(k for k, extent in enumerate(shape) if extent > 1)
    step = max(1, BLOCK * shape[axis] // size)
    result: Array = None
    for start in range(0, shape[axis], step):
        index = (slice(None),) * axis + (slice(start, start + step),)
        block = evaluate(expr, _at_block(at, len(shape), index))
        if result is None:
            result = np.empty(shape, block.dtype)
        result[index] = block
    return result


def _most_elements(at: EvaluationPoint) -> int:
    """Returns a bound on the number of elements of a value."""
    shapes = {a.shape[::-1] for a in (*at.values.values(), *at.index_vars.values())}
    return prod(map(max, zip_longest(*shapes, fillvalue=1)))


def _cost(expr: ScalarExpr) -> int:
    """Returns the number of arrays that an evaluation creates."""
    functions = [node.fn for node in walk(expr) if isinstance(node, ScalarOp)]
    return sum([OWN_COST if is_own(fn) else 1 for fn in functions])


def _arrays_in(expr: ScalarExpr, at: EvaluationPoint) -> list[Array]:
    """Returns the arrays that an expression reads."""
    nodes = list(walk(expr))
    reads = [at.values[n.name] for n in nodes if isinstance(n, OperandElement)]
    return reads + [at.index_vars[n.index_var] for n in nodes if isinstance(n, LoopIndex)]


def _at_block(at: EvaluationPoint, rank: int, index: tuple[slice, ...]) -> EvaluationPoint:
    def cut(arrays: Mapping[Any, Array]) -> dict[Any, Array]:
        axis = len(index) - 1
        return {
            name: a[index] if a.ndim == rank and a.shape[axis] > 1 else a
            for name, a in arrays.items()
        }

    return EvaluationPoint(cut(at.values), cut(at.index_vars), at.sizes)
