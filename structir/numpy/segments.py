"""Reductions over segments: elements with equal ids are combined. Source: `jax.ops`."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import int_limits, is_float
from structir.numpy.creation import full
from structir.numpy.elementwise import where
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced


def _segments(
    data: Any, segment_ids: Any, num_segments: Any, method: str, start: Any
) -> TracedArray:
    """Combines the rows of `data` with equal ids; ids out of range are dropped."""
    rows, ids = operand(data), operand(segment_ids)
    if num_segments is None:
        message = f"segment_{method}: num_segments: expected the number of segments"
        hint = "pass `num_segments=n`: the shape of the result cannot depend on elements"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1105"))
    target = full((num_segments, *rows.shape[1:]), start, rows.dtype_name)
    inside = where(ids < 0, num_segments, ids)  # a negative id is no index from the end
    return getattr(target.at[inside], method)(rows)


@traced
def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None, **hints: Any) -> TracedArray:
    """Returns the sum of the rows of each segment, of shape `(num_segments, *data.shape[1:])`.

    Rows whose id is not in `[0, num_segments)` are dropped. Hints of JAX, such as
    `indices_are_sorted`, have no effect.
    """
    return _segments(data, segment_ids, num_segments, "add", 0)


@traced
def segment_prod(
    data: Any, segment_ids: Any, num_segments: Any = None, **hints: Any
) -> TracedArray:
    """Returns the product of the rows of each segment, 1 for an empty one; see `segment_sum`."""
    return _segments(data, segment_ids, num_segments, "multiply", 1)


@traced
def segment_max(data: Any, segment_ids: Any, num_segments: Any = None, **hints: Any) -> TracedArray:
    """Returns the maxima of each segment, the least number for an empty one; see `segment_sum`."""
    dtype = operand(data).dtype_name
    least = float("-inf") if is_float(dtype) else int_limits(dtype)[0]
    return _segments(data, segment_ids, num_segments, "max", least)


@traced
def segment_min(data: Any, segment_ids: Any, num_segments: Any = None, **hints: Any) -> TracedArray:
    """Returns the minima of each segment, the greatest number for an empty one; see
    `segment_sum`."""
    dtype = operand(data).dtype_name
    greatest = float("inf") if is_float(dtype) else int_limits(dtype)[1]
    return _segments(data, segment_ids, num_segments, "min", greatest)
