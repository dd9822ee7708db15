"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import arctan, log, log1p, tan
from structir.scipy.stats.derived import exponential, logarithm, mirrored, standardized
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    z, width = standardized(x, loc, scale)
    return -(log(math.pi * width) + log1p(z * z))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    return arctan(standardized(x, loc, scale)[0]) / math.pi + 0.5


logcdf = logarithm("logcdf", cdf)
sf = mirrored("sf", cdf)


logsf = mirrored("logsf", logcdf)


@traced
def ppf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    return tan(math.pi * shares - math.pi / 2) * width + middle


@traced
def isf(q: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of `sf`."""
    (shares, middle, width), _ = real_operands(q, loc, scale)
    return tan(math.pi / 2 - math.pi * shares) * width + middle
