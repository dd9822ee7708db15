"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import log, log1p
from structir.scipy.special.incomplete import betainc
from structir.scipy.stats.derived import exponential
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, freedom, middle, width), _ = real_operands(x, df, loc, scale)
    z = (points - middle) / width
    half = freedom / 2
    norm = lgamma(half) + log(math.pi * width * width * freedom) / 2 - lgamma(half + 0.5)
    return -(norm + (half + 0.5) * log1p(z * z / freedom))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    (points, freedom, middle, width), _ = real_operands(x, df, loc, scale)
    z = (points - middle) / width
    tail = betainc(freedom / 2, 0.5, freedom / (freedom + z * z)) / 2
    return where(z < 0, tail, 1 - tail)


@traced
def sf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns 1 less the distribution function."""
    (points, freedom, middle, width), _ = real_operands(x, df, loc, scale)
    return cdf(-points, freedom, -middle, width)
