"""The multivariate normal distribution."""

import math
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.numpy.creation import diagonal
from structir.numpy.elementwise import real_operands
from structir.numpy.linalg import cholesky, solve_triangular
from structir.numpy.reals import exp, log
from structir.scipy.hints import without_hints
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@without_hints
@traced
def logpdf(x: Any, mean: Any, cov: Any) -> TracedArray:
    """Returns the logarithm of the density of points (..., n), whose mean is (..., n).

    The covariances are matrices (..., n, n), or one variance of all coordinates. With one number as
    mean, points are numbers. Raises DiagnosticError for another shape of `cov`.
    """
    (points, center, matrix), _ = real_operands(x, mean, cov)
    if not center.ndim and matrix.ndim == 2 and matrix.dims == (1, 1):
        matrix = matrix[0, 0]
    if not center.ndim and not matrix.ndim:
        difference = points - center
        return -(difference * difference) / matrix / 2 - log(matrix * (2 * math.pi)) / 2
    centred = points - center
    count = centred.shape[-1]
    constant = count * math.log(2 * math.pi) / 2
    if not matrix.ndim:
        return -(centred * centred).sum(-1) / matrix / 2 - constant - count * log(matrix) / 2
    if matrix.ndim < 2:
        message = f"multivariate_normal: cov: expected matrices or a number, found {matrix.aval}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    factor = cholesky(matrix)
    if matrix.ndim == 2:
        rows = centred.reshape(-1, count)
        z = solve_triangular(factor, rows.T, lower=True).T.reshape(centred.shape)
    else:
        z = solve_triangular(factor, centred[..., None], lower=True)[..., 0]
    return -(z * z).sum(-1) / 2 - log(diagonal(factor, 0, -2, -1)).sum(-1) - constant


@without_hints
@traced
def pdf(x: Any, mean: Any, cov: Any) -> TracedArray:
    """Returns the density of points (..., n), with the arguments of `logpdf`."""
    return exp(logpdf(x, mean, cov))
