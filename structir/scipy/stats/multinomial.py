"""The multinomial distribution."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy import elementwise, reductions
from structir.scipy.special.functions import xlogy
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.context import traced


@traced
def logpmf(x: Any, n: Any, p: Any) -> TracedArray:
    """Returns the logarithm of the probability of counts along the last axis, whose sum is n."""
    shares = elementwise.real(p)
    counts, trials = (cast(operand(v), shares.dtype_name) for v in (x, n))
    terms = reductions.sum(xlogy(counts, shares) - lgamma(counts + 1), -1)
    return outside(reductions.sum(counts) != trials, lgamma(trials + 1) + terms)


pmf = exponential("pmf", logpmf)
