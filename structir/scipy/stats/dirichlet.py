"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.lax.primitives import lgamma
from structir.numpy import reductions
from structir.numpy.elementwise import real_operands
from structir.numpy.shaping import concatenate
from structir.scipy.special.functions import xlogy
from structir.scipy.stats.derived import exponential, outside
from structir.tracing.array import TracedArray
from structir.tracing.context import traced


@traced
def logpdf(x: Any, alpha: Any) -> TracedArray:
    """Returns the logarithm of the density of points along axis 0; the last coordinate may be
    left out."""
    (points, order), _ = real_operands(x, alpha)
    sizes = order.shape[0], points.shape[0]
    if order.ndim != 1 or sizes[1] not in (sizes[0], sizes[0] - 1):
        message = "dirichlet: expected as many coordinates as elements of alpha, or one less, found"
        raise DiagnosticError(Diagnostic(f"{message} {points.aval} and {order.aval}", code="E1107"))
    if sizes[0] != sizes[1]:
        last = 1 - reductions.sum(points, 0, keepdims=True)
        points = concatenate([points, last], 0)
    norm = reductions.sum(lgamma(order)) - lgamma(reductions.sum(order))
    column = order.reshape((-1, *[1] * (points.ndim - 1)))
    value = reductions.sum(xlogy(column - 1, points), 0) - norm
    is_sum = abs(reductions.sum(points, 0) - 1) < 1e-6
    return outside(~(reductions.all(points > 0, 0) & is_sum), value)


pdf = exponential("pdf", logpdf)
