"""The geometric distribution: the number of trials up to the first success."""

from __future__ import annotations

from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.special.entropy import xlog1py
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpmf(k: Any, p: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, share, start), _ = real_operands(k, p, loc)
    x = counts - start
    return outside(x <= 0, xlog1py(x - 1, -share) + log(share))


pmf = exponential("pmf", logpmf)
