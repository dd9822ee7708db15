"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy import elementwise, reals, reductions
from structir.numpy.creation import arange
from structir.numpy.elementwise import real_operands, where
from structir.numpy.reals import floor, log
from structir.scipy.special.functions import entr, xlogy
from structir.scipy.special.incomplete import gammaincc
from structir.scipy.stats.derived import clipped, exponential, outside
from structir.tracing.array import TracedArray, cast
from structir.tracing.context import traced


@traced
def logpmf(k: Any, mu: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the logarithm of the probability."""
    (counts, mean, start), _ = real_operands(k, mu, loc)
    x = counts - start
    value = xlogy(x, mean) - lgamma(x + 1) - mean
    return outside((x < 0) | (reals.round(counts) != counts), value)


pmf = exponential("pmf", logpmf)


@traced
def cdf(k: Any, mu: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the distribution function."""
    (counts, mean, start), _ = real_operands(k, mu, loc)
    x = counts - start
    return outside(x < 0, gammaincc(floor(1 + clipped(x, 0.0)), mean), 0.0)


TERMS = 250  # of the sum for means below 100


@traced
def entropy(mu: Any, loc: Any = 0.0) -> TracedArray:
    """Returns the entropy; above means of 100 by its asymptotic series."""
    (mean, _), _ = real_operands(mu, loc)
    small = where(mean < 100, mean, 1.0)[..., None]
    counts = arange(TERMS, dtype=mean.dtype_name)
    value = reductions.sum(entr(pmf(counts, small)), -1)
    large = where(mean < 100, 100.0, mean)
    series = log(2 * math.pi * math.e * large) / 2 - 1 / (12 * large)
    value = where(mean < 100, value, series)
    shape = elementwise.add(mean, elementwise.multiply(loc, 0))
    return where(mean == 0, 0.0, value) + cast(shape * 0, mean.dtype_name)
