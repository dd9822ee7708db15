"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import log
from structir.scipy.special.functions import xlogy
from structir.scipy.special.incomplete import gammainc, gammaincc
from structir.scipy.stats.derived import clipped, exponential, located, logarithm, outside
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
cdf = located("cdf", lambda z, a, width: gammainc(a, clipped(z, 0.0)), "a")
logcdf = logarithm("logcdf", cdf)
sf = located("sf", lambda z, a, width: outside(z < 0, gammaincc(a, z), 1.0), "a")
logsf = logarithm("logsf", sf)
