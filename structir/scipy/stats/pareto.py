"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log, log1p
from structir.scipy.stats.derived import exponential, of_shares, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, order, middle, width), _ = real_operands(x, b, loc, scale)
    z = (points - middle) / width
    return outside(z < 1, -(log(width / order) + (order + 1) * log(z)))


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    (points, order, middle, width), _ = real_operands(x, b, loc, scale)
    z = (points - middle) / width
    return outside(z < 1, 1 - z**-order, 0.0)


@traced
def logcdf(x: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    (points, order, middle, width), _ = real_operands(x, b, loc, scale)
    z = (points - middle) / width
    return outside(z < 1, log1p(-(z**-order)))


@traced
def logsf(x: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of 1 less the distribution function."""
    (points, order, middle, width), _ = real_operands(x, b, loc, scale)
    z = (points - middle) / width
    return outside(z < 1, -order * log(z), 0.0)


sf = exponential("sf", logsf)


@traced
def ppf(q: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, order, middle, width), _ = real_operands(q, b, loc, scale)
    return of_shares(shares, middle + width * (1 - shares) ** (-1 / order))
