"""Student's t distribution."""

from __future__ import annotations

import math

from structir.lax.primitives import lgamma
from structir.numpy.elementwise import where
from structir.numpy.reals import log, log1p
from structir.scipy.special.incomplete import betainc
from structir.scipy.stats.derived import exponential, located
from structir.tracing.array import TracedArray


def _log_density(z: TracedArray, freedom: TracedArray, width: TracedArray) -> TracedArray:
    half = freedom / 2
    norm = lgamma(half) + log(math.pi * width * width * freedom) / 2 - lgamma(half + 0.5)
    return -(norm + (half + 0.5) * log1p(z * z / freedom))


def _share_below(z: TracedArray, freedom: TracedArray, width: TracedArray) -> TracedArray:
    tail = betainc(freedom / 2, 0.5, freedom / (freedom + z * z)) / 2
    return where(z < 0, tail, 1 - tail)


logpdf = located("logpdf", _log_density, "df")
pdf = exponential("pdf", logpdf)
cdf = located("cdf", _share_below, "df")
sf = located("sf", lambda z, freedom, width: _share_below(-z, freedom, width), "df")
