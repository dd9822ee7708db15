"""The normal distribution between the limits loc + a * scale and loc + b * scale."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import exp, expm1, log, log1p
from structir.scipy.special.entropy import log_ndtr
from structir.scipy.special.functions import ndtr
from structir.scipy.stats import norm
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


def _log_mass(a: TracedArray, b: TracedArray) -> TracedArray:
    """Returns the logarithm of the mass of the standard normal distribution between two limits."""
    is_right = a > 0
    is_central = ~is_right & (b > 0)
    first, second = where(is_right, -b, a), where(is_right, -a, b)
    first, second = log_ndtr(first), log_ndtr(second)
    tail = second + log(-expm1(where(first < second, first - second, -1.0)))
    tail = where(first < second, tail, -math.inf)
    return where(is_central, log1p(-ndtr(a) - ndtr(-b)), tail)


@traced
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, first, second, middle, width), _ = real_operands(x, a, b, loc, scale)
    z = (points - middle) / width
    value = norm.logpdf(points, middle, width) - _log_mass(first, second)
    value = outside((z < first) | (z > second), value)
    return outside(first >= second, value, math.nan)


pdf = exponential("pdf", logpdf)


@traced
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    (points, first, second, middle, width), _ = real_operands(x, a, b, loc, scale)
    z = (points - middle) / width
    mass = _log_mass(first, second)
    value, rest = _log_mass(first, z) - mass, _log_mass(z, second) - mass
    value = where(value > -0.1, log1p(-exp(rest)), value)
    value = where(z <= first, -math.inf, where(z >= second, 0.0, value))
    return outside(first >= second, value, math.nan)


cdf = exponential("cdf", logcdf)


@traced
def logsf(x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of 1 less the distribution function."""
    (points, first, second, middle, width), _ = real_operands(x, a, b, loc, scale)
    return logcdf(-points, -second, -first, -middle, width)


sf = exponential("sf", logsf)
