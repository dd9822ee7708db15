"""The normal distribution."""

import math
from typing import Any

from structir.numpy.elementwise import real_operands
from structir.numpy.reals import exp, log
from structir.scipy.special import ndtr
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, middle, deviation), _ = real_operands(x, loc, scale)
    z = (points - middle) / deviation
    return -(z * z) / 2 - log(deviation) - math.log(2 * math.pi) / 2


@traced
def pdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the density."""
    return exp(logpdf(x, loc, scale))


@traced
def cdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
    """Returns the distribution function."""
    (points, middle, deviation), _ = real_operands(x, loc, scale)
    return ndtr((points - middle) / deviation)
