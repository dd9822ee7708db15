"""The left-skewed Gumbel distribution."""

import functools
import math
from collections.abc import Callable
from typing import Any

from structir.numpy.reals import exp, expm1, log, log1p
from structir.scipy.stats.derived import Function, exponential, located, outside, quantile
from structir.tracing.array import TracedArray


def of_positive_scale(core: Callable[[TracedArray, TracedArray], Any]) -> Function:
    """Returns a function that is NaN for scales that are not positive."""

    @functools.wraps(core)
    def function(z: TracedArray, width: TracedArray) -> TracedArray:
        return outside(width <= 0, core(z, width), math.nan)

    return function


def inside(core: Callable[[TracedArray], Any]) -> Function:
    """Returns an inverse function that is NaN unless 0 < q < 1."""

    @functools.wraps(core)
    def function(q: TracedArray) -> TracedArray:
        return outside((q <= 0) | (q >= 1), core(q), math.nan)

    return function


logpdf = located("logpdf", of_positive_scale(lambda z, width: z - exp(z) - log(width)))
pdf = exponential("pdf", logpdf)
logcdf = located("logcdf", of_positive_scale(lambda z, width: log(-expm1(-exp(z)))))
cdf = exponential("cdf", logcdf)
logsf = located("logsf", of_positive_scale(lambda z, width: -exp(z)))
sf = exponential("sf", logsf)
ppf = quantile("ppf", inside(lambda q: log(-log1p(-q))))
