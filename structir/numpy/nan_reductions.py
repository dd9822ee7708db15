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
    ignoring_nans,
    nanmean,
    prod,
    sum,
    without_nans,
)
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced

nanprod = ignoring_nans(
    prod, "nanprod", 1, "the product of the elements that are not NaN", __name__
)
nancumsum = ignoring_nans(cumsum, "nancumsum", 0, "cumulative sums with 0 for NaNs", __name__)
nancumprod = ignoring_nans(
    cumprod, "nancumprod", 1, "cumulative products with 1 for NaNs", __name__
)
nanargmax = ignoring_nans(
    argmax, "nanargmax", -math.inf, "the position of the largest element that is not NaN", __name__
)
nanargmin = ignoring_nans(
    argmin, "nanargmin", math.inf, "the position of the smallest element that is not NaN", __name__
)


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
