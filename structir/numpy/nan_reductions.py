"""Reductions that ignore NaNs."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import divide, isnan, where
from structir.numpy.reals import sqrt
from structir.numpy.reductions import argmax, argmin, cumprod, cumsum, nanmean, prod, sum
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced


@traced
def nanprod(a: Any, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the product of the elements that are not NaN."""
    return prod(where(isnan(a), 1, operand(a)), axis, keepdims=keepdims)


@traced
def nancumsum(a: Any, axis: int | None = None) -> TracedArray:
    """Returns cumulative sums with 0 for NaNs."""
    return cumsum(where(isnan(a), 0, operand(a)), axis)


@traced
def nancumprod(a: Any, axis: int | None = None) -> TracedArray:
    """Returns cumulative products with 1 for NaNs."""
    return cumprod(where(isnan(a), 1, operand(a)), axis)


@traced
def nanargmax(a: Any, axis: int | None = None, keepdims: bool = False) -> TracedArray:
    """Returns the position of the largest element that is not NaN."""
    return argmax(where(isnan(a), -float("inf"), operand(a)), axis, keepdims=keepdims)


@traced
def nanargmin(a: Any, axis: int | None = None, keepdims: bool = False) -> TracedArray:
    """Returns the position of the smallest element that is not NaN."""
    return argmin(where(isnan(a), float("inf"), operand(a)), axis, keepdims=keepdims)


@traced
def nanvar(a: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> TracedArray:
    """Returns the variance of the elements that are not NaN."""
    array = operand(a)
    centred = where(isnan(array), 0, array - nanmean(array, axis, keepdims=True))
    count = sum(~isnan(array), axis, keepdims=keepdims)
    return divide(sum(centred * centred, axis, keepdims=keepdims), count - ddof)


@traced
def nanstd(a: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> TracedArray:
    """Returns the standard deviation of the elements that are not NaN."""
    return sqrt(nanvar(a, axis, ddof, keepdims))
