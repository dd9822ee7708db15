"""The normal distribution."""

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import exp, log
from structir.scipy.special.entropy import log_ndtr
from structir.scipy.special.functions import ndtr, ndtri
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


def _standardized(x: Any, loc: Any, scale: Any) -> tuple[TracedArray, TracedArray]:
    """Returns (x - loc) / scale, and the scale."""
    (points, middle, deviation), _ = real_operands(x, loc, scale)
    return (points - middle) / deviation, deviation


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, deviation = _standardized(x, loc, scale)
    return -(z * z) / 2 - log(deviation) - math.log(2 * math.pi) / 2


@traced
def pdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the density."""
    return exp(logpdf(x, loc, scale))


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    return ndtr(_standardized(x, loc, scale)[0])


@traced
def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    return log_ndtr(_standardized(x, loc, scale)[0])


@traced
def sf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns 1 less the distribution function, accurate for large x."""
    return ndtr(-_standardized(x, loc, scale)[0])


@traced
def logsf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of 1 less the distribution function."""
    return log_ndtr(-_standardized(x, loc, scale)[0])


@traced
def ppf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, middle, deviation), _ = real_operands(q, loc, scale)
    return ndtri(shares) * deviation + middle


@traced
def isf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of `sf`."""
    (shares, middle, deviation), _ = real_operands(q, loc, scale)
    return -ndtri(shares) * deviation + middle
