"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import cos, log
from structir.scipy.special.bessel import i0e
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, kappa: Any) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, order), _ = real_operands(x, kappa)
    value = order * (cos(points) - 1) - log(2 * math.pi * i0e(order))
    return outside(order <= 0, value, math.nan)


pdf = exponential("pdf", logpdf)
