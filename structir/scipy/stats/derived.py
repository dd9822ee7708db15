"""Functions of distributions that follow from others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from structir.numpy import elementwise, reals
from structir.tracing.array import TracedArray
from structir.tracing.context import traced

Function = Callable[..., TracedArray]
MEANINGS = {
    "pdf": "Returns the density.",
    "pmf": "Returns the probability.",
    "cdf": "Returns the distribution function.",
    "logcdf": "Returns the logarithm of the distribution function.",
    "sf": "Returns 1 less the distribution function.",
    "logsf": "Returns the logarithm of 1 less the distribution function.",
}


def exponential(name: str, logarithm: Function) -> Function:
    """Returns the function of a distribution whose logarithm is given."""
    return _composed(name, reals.exp, logarithm)


def logarithm(name: str, function: Function) -> Function:
    """Returns the logarithm of a function of a distribution."""
    return _composed(name, reals.log, function)


def _composed(name: str, outer: Function, inner: Function) -> Function:
    @functools.wraps(inner)
    def composed(*args: Any, **keywords: Any) -> TracedArray:
        return outer(inner(*args, **keywords))

    composed.__name__ = composed.__qualname__ = name
    composed.__doc__ = MEANINGS[name]
    return traced(composed)


def mirrored(name: str, function: Function) -> Function:
    """Returns a function of a symmetric distribution at -x, for -loc."""

    @functools.wraps(function)
    def reflected(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
        (points, middle, width), _ = elementwise.real_operands(x, loc, scale)
        return function(-points, -middle, width)

    reflected.__name__ = reflected.__qualname__ = name
    reflected.__doc__ = MEANINGS[name]
    return traced(reflected)


def standardized(x: Any, loc: Any, scale: Any) -> tuple[TracedArray, TracedArray]:
    """Returns (x - loc) / scale, and the scale."""
    (points, middle, width), _ = elementwise.real_operands(x, loc, scale)
    return (points - middle) / width, width


def outside(is_outside: Any, value: Any, otherwise: Any = -math.inf) -> TracedArray:
    """Returns a value, and another one outside of the support."""
    return elementwise.where(is_outside, otherwise, value)


def clipped(x: TracedArray, low: Any, high: Any = math.inf) -> TracedArray:
    """Returns x limited to [low, high], with no gradient outside, even an infinite one."""
    return elementwise.where(x < low, low, elementwise.where(x > high, high, x))


def of_shares(q: TracedArray, value: Any) -> TracedArray:
    """Returns a quantile, and NaN where q is not in [0, 1]."""
    return elementwise.where(elementwise.isnan(q) | (q < 0) | (q > 1), math.nan, value)
