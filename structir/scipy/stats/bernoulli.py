"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy import elementwise
from structir.numpy.elementwise import real_operands, where
from structir.scipy.special.entropy import xlog1py
from structir.scipy.special.functions import xlogy
from structir.scipy.stats.derived import exponential, of_shares, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpmf(k: Any, p: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, share, start), _ = real_operands(k, p, loc)
    x = counts - start
    return outside((x < 0) | (x > 1), xlogy(x, share) + xlog1py(1 - x, -share))


pmf = exponential("pmf", logpmf)


@traced
def cdf(k: Any, p: Any) -> TracedArray:
    """Returns the distribution function."""
    (counts, share), _ = real_operands(k, p)
    value = where(counts < 0, 0.0, where(counts < 1, 1 - share, 1.0))
    is_undefined = elementwise.isnan(counts) | elementwise.isnan(share)
    return outside(is_undefined | (share < 0) | (share > 1), value, math.nan)


@traced
def ppf(q: Any, p: Any) -> TracedArray:
    """Returns the inverse of the distribution function."""
    (shares, share), _ = real_operands(q, p)
    value = of_shares(shares, where(shares <= 1 - share, 0.0, 1.0))
    return outside(elementwise.isnan(share) | (share < 0) | (share > 1), value, math.nan)
