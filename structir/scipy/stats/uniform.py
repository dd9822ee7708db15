"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.stats.derived import (
    clipped,
    exponential,
    located,
    of_shares,
    outside,
    quantile,
)
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, middle, width), _ = real_operands(x, loc, scale)
    return outside((points > middle + width) | (points < middle), -log(width))


pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, width: clipped(z, 0.0, 1.0))
ppf = quantile("ppf", lambda q: of_shares(q, q))
