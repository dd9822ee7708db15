"""The generalized normal distribution."""

from __future__ import annotations

from typing import Any

from structir.lax.primitives import lgamma
from structir.numpy import elementwise
from structir.numpy.elementwise import real_operands
from structir.numpy.reals import log
from structir.scipy.special.incomplete import gammainc
from structir.scipy.stats.derived import exponential
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, beta: Any) -> TracedArray:
    """Returns the logarithm of the density."""
    (points, order), _ = real_operands(x, beta)
    return log(order / 2) - lgamma(1 / order) - abs(points) ** order


pdf = exponential("pdf", logpdf)


@traced
def cdf(x: Any, beta: Any) -> TracedArray:
    """Returns the distribution function."""
    (points, order), _ = real_operands(x, beta)
    share = gammainc(1 / order, abs(points) ** order)
    return (1 + elementwise.sign(points) * share) / 2
