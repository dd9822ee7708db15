"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from structir.numpy import reals
from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.special.functions import expit, logit
from structir.scipy.stats.derived import exponential, standardized
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, width = standardized(x, loc, scale)
    return -2 * reals.logaddexp(z / 2, -z / 2) - log(width)


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    return expit(standardized(x, loc, scale)[0])


@traced
def sf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns 1 less the distribution function."""
    return expit(-standardized(x, loc, scale)[0])


@traced
def ppf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    return logit(shares) * width + middle


@traced
def isf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of `sf`."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    return -logit(shares) * width + middle
