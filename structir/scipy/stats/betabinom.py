"""The beta-binomial distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import floor, log1p
from structir.scipy.special.factorials import betaln
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, trials, first, second, start), _ = real_operands(k, n, a, b, loc)
    x = floor(counts) - start
    choices = -(log1p(trials) + betaln(trials - x + 1, x + 1))
    value = choices + betaln(x + first, trials - x + second) - betaln(first, second)
    value = where((x == 0) & (trials == 0), 0.0, value)
    value = outside((x < -start) | (x > trials) | (x + first <= 0), value)
    return outside((trials < 0) | (first <= 0) | (second <= 0), value, math.nan)


pmf = exponential("pmf", logpmf)
