"""The negative binomial distribution: the number of failures before n successes."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import real_operands
from structir.scipy.special.functions import xlogy
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, trials, share, start), _ = real_operands(k, n, p, loc)
    x = counts - start
    choices = lgamma(x + trials) - lgamma(trials) - lgamma(x + 1)
    return outside(x < 0, choices + xlogy(trials, share) + xlogy(x, 1 - share))


pmf = exponential("pmf", logpmf)
