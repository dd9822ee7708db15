"""The right-skewed Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import exp, expm1, log
from structir.scipy.stats.derived import exponential, outside, standardized
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, width = standardized(x, loc, scale)
    return outside(width <= 0, -(log(width) + z + exp(-z)), math.nan)


pdf = exponential("pdf", logpdf)


@traced
def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    z, width = standardized(x, loc, scale)
    return outside(width <= 0, -exp(-z), math.nan)


cdf = exponential("cdf", logcdf)


@traced
def logsf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of 1 less the distribution function."""
    z, width = standardized(x, loc, scale)
    return outside(width <= 0, log(-expm1(-exp(-z))), math.nan)


@traced
def sf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns 1 less the distribution function."""
    z, width = standardized(x, loc, scale)
    return outside(width <= 0, -expm1(-exp(-z)), math.nan)


@traced
def ppf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    value = middle - width * log(-log(shares))
    return outside((shares <= 0) | (shares >= 1), value, math.nan)
