"""The multivariate normal distribution."""

import math
from typing import Any

from structir.numpy.creation import diagonal
from structir.numpy.elementwise import real
from structir.numpy.linalg import cholesky, solve_triangular
from structir.numpy.reals import exp, log
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, mean: Any, cov: Any) -> TracedArray:
    """Returns the logarithm of the density of points (..., n)."""
    factor, centred = cholesky(cov), real(x) - mean
    rows = centred.reshape(-1, centred.shape[-1])
    z = solve_triangular(factor, rows.T, lower=True).T.reshape(centred.shape)
    logarithm = log(diagonal(factor)).sum()
    constant = centred.shape[-1] * math.log(2 * math.pi) / 2
    return -(z * z).sum(-1) / 2 - logarithm - constant


@traced
def pdf(x: Any, mean: Any, cov: Any) -> TracedArray:
    """Returns the density of points (..., n)."""
    return exp(logpdf(x, mean, cov))
