"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import expm1, log, log1p
from structir.scipy.stats.derived import exponential, of_shares, outside, standardized
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, width = standardized(x, loc, scale)
    return outside(z < 0, -(z + log(width)))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    z = standardized(x, loc, scale)[0]
    return outside(z < 0, -expm1(-z), 0.0)


@traced
def logsf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of 1 less the distribution function."""
    z = standardized(x, loc, scale)[0]
    return outside(z < 0, -z, 0.0)


sf = exponential("sf", logsf)


@traced
def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    return log1p(-sf(x, loc, scale))


@traced
def ppf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    return of_shares(shares, middle - width * log1p(-shares))
