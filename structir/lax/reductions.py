"""Reductions over axes, and logarithms of running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.lax.flow import associative_scan
from structir.numpy import reductions
from structir.numpy.reals import logaddexp
from structir.numpy.shaping import flip
from structir.tracing.array import TracedArray
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced


def _reduction(name: str, function: Callable[..., TracedArray], text: str) -> Any:
    def reduce(operand: Any, axes: Sequence[int], **hints: Any) -> TracedArray:
        return function(operand, axis=tuple(axes)) if len(axes) else as_operand(operand)

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"Returns the {text} over axes."
    return traced(reduce)


reduce_max = _reduction("reduce_max", reductions.max, "largest element")
reduce_min = _reduction("reduce_min", reductions.min, "smallest element")
reduce_sum = _reduction("reduce_sum", reductions.sum, "sum")
reduce_prod = _reduction("reduce_prod", reductions.prod, "product")
reduce_and = _reduction("reduce_and", reductions.all, "conjunction")
reduce_or = _reduction("reduce_or", reductions.any, "disjunction")


@traced
def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the logarithms of cumulative sums of exponentials along an axis."""
    array = flip(operand, axis) if reverse else as_operand(operand)
    result = associative_scan(logaddexp, array, axis=axis)
    return flip(result, axis) if reverse else result
