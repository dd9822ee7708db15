"""The chi-squared distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.special.incomplete import gammainc, gammaincc
from structir.scipy.stats.derived import clipped, exponential, located, logarithm, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, freedom, middle, width), _ = real_operands(x, df, loc, scale)
    half, z = freedom / 2, (points - middle) / width
    kernel = (half - 1) * log(z) - z / 2
    return outside(points < middle, kernel - lgamma(half) - half * math.log(2) - log(width))


pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, df, width: gammainc(df / 2, clipped(z / 2, 0.0)), "df")
logcdf = logarithm("logcdf", cdf)
sf = located("sf", lambda z, df, width: gammaincc(df / 2, clipped(z / 2, 0.0)), "df")
logsf = logarithm("logsf", sf)
