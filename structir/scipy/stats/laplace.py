"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import where
from structir.numpy.reals import exp, log
from structir.scipy.stats.derived import exponential, standardized
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, width = standardized(x, loc, scale)
    return -(abs(z) + log(2 * width))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    z = standardized(x, loc, scale)[0]
    tail = exp(-abs(z)) / 2
    return where(z <= 0, tail, 1 - tail)
