"""The wrapped Cauchy distribution of angles in [0, 2 pi]."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import cos, log
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, c: Any) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, order), _ = real_operands(x, c)
    value = log(1 - order * order) - math.log(2 * math.pi)
    value = value - log(1 + order * order - 2 * order * cos(points))
    value = outside((points < 0) | (points > 2 * math.pi), value)
    return outside((order <= 0) | (order >= 1), value, math.nan)


pdf = exponential("pdf", logpdf)
