"""The exponential distribution."""

from __future__ import annotations

from typing import Any

from structir.numpy.reals import expm1, log, log1p
from structir.scipy.stats.derived import exponential, located, of_shares, outside, quantile
from structir.tracing.array import TracedArray
from structir.tracing.context import traced

logpdf = located("logpdf", lambda z, width: outside(z < 0, -(z + log(width))))
pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, width: outside(z < 0, -expm1(-z), 0.0))
logsf = located("logsf", lambda z, width: outside(z < 0, -z, 0.0))
sf = exponential("sf", logsf)


@traced
def logcdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the distribution function."""
    return log1p(-sf(x, loc, scale))


ppf = quantile("ppf", lambda q: of_shares(q, -log1p(-q)))
