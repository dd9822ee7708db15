"""The beta distribution on [loc, loc + scale]."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.special.entropy import xlog1py
from structir.scipy.special.factorials import betaln
from structir.scipy.special.functions import xlogy
from structir.scipy.special.incomplete import betainc
from structir.scipy.stats.derived import clipped, exponential, located, logarithm, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, first, second, middle, width), _ = real_operands(x, a, b, loc, scale)
    z = (points - middle) / width
    power = xlogy(first - 1, z) + xlog1py(second - 1, -z)
    value = power - betaln(first, second) - log(width)
    value = outside((points > middle + width) | (points < middle), value)
    return outside((first <= 0) | (second <= 0) | (width <= 0), value, math.nan)


pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, a, b, width: betainc(a, b, clipped(z, 0.0, 1.0)), "a", "b")
logcdf = logarithm("logcdf", cdf)
sf = located("sf", lambda z, a, b, width: betainc(b, a, 1 - clipped(z, 0.0, 1.0)), "a", "b")
logsf = logarithm("logsf", sf)
