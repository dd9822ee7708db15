"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands, where
from structir.scipy.special.entropy import xlog1py
from structir.scipy.special.functions import xlogy
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, trials, share, start), _ = real_operands(k, n, p, loc)
    x = counts - start
    choices = lgamma(trials + 1) - lgamma(x + 1) - lgamma(trials - x + 1)
    power = xlogy(x, share) + xlog1py(trials - x, -share)
    is_certain = ((x == 0) & (trials == 0)) | (power == 0)
    value = where(is_certain, 0.0, choices + power)
    return outside((x < 0) | (x >= trials + 1), value)


pmf = exponential("pmf", logpmf)
