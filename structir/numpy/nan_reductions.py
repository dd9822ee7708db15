"""Reductions that ignore NaNs."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import astype, divide, isnan, real
from structir.numpy.reals import sqrt
from structir.numpy.reductions import (
    argmax,
    argmin,
    cumprod,
    cumsum,
    nanmean,
    prod,
    sum,
    without_nans,
)
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced


@traced
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> TracedArray:
    """Returns the product of the elements that are not NaN."""
    return prod(without_nans(a, 1), axis, dtype, None, keepdims, initial, where)


@traced
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> TracedArray:
    """Returns cumulative sums with 0 for NaNs."""
    return cumsum(without_nans(a, 0), axis, dtype)


@traced
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> TracedArray:
    """Returns cumulative products with 1 for NaNs."""
    return cumprod(without_nans(a, 1), axis, dtype)


@traced
def nanargmax(
    a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False
) -> TracedArray:
    """Returns the position of the largest element that is not NaN."""
    return argmax(without_nans(a, -math.inf), axis, keepdims=keepdims)


@traced
def nanargmin(
    a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False
) -> TracedArray:
    """Returns the position of the smallest element that is not NaN."""
    return argmin(without_nans(a, math.inf), axis, keepdims=keepdims)


@traced
def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
) -> TracedArray:
    """Returns the variance of the elements that are not NaN."""
    array = real(a) if dtype is None else real(astype(a, dtype))
    centred = without_nans(array, 0) - nanmean(array, axis, keepdims=True, where=where)
    counted = ~isnan(array) if where is None else ~isnan(array) & operand(where)
    count = sum(counted, axis, keepdims=keepdims)
    total = sum(centred * centred, axis, keepdims=keepdims, where=counted)
    return divide(total, count - ddof)


@traced
def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: Any = None,
) -> TracedArray:
    """Returns the standard deviation of the elements that are not NaN."""
    return sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where))
