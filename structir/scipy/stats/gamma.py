"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import log
from structir.scipy.special.functions import xlogy
from structir.scipy.special.incomplete import gammainc, gammaincc
from structir.scipy.stats.derived import clipped, exponential, logarithm, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, order, middle, width), _ = real_operands(x, a, loc, scale)
    is_outside = points < middle
    z = where(is_outside, 1.0, (points - middle) / width)
    return outside(is_outside, xlogy(order - 1, z) - z - lgamma(order) - log(width))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    (points, order, middle, width), _ = real_operands(x, a, loc, scale)
    return gammainc(order, clipped((points - middle) / width, 0.0))


logcdf = logarithm("logcdf", cdf)


@traced
def sf(x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns 1 less the distribution function."""
    (points, order, middle, width), _ = real_operands(x, a, loc, scale)
    z = (points - middle) / width
    return outside(z < 0, gammaincc(order, z), 1.0)


logsf = logarithm("logsf", sf)
