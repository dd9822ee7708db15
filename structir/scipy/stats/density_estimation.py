"""Kernel density estimation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.lazy import exported
from structir.nn.activation import logsumexp
from structir.numpy import creation, elementwise, linalg, reals, reductions, shaping
from structir.random import choice, multivariate_normal, split
from structir.scipy.special.functions import ndtr
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced


def _covariance(dataset: TracedArray, weights: TracedArray) -> TracedArray:
    """Returns the unbiased covariance of weighted columns."""
    centred = dataset - reductions.sum(dataset * weights, 1, keepdims=True)
    scale = 1 - reductions.sum(weights * weights)
    return (centred * weights) @ centred.T / scale


@traced
def _fitted(dataset: Any, weights: Any, factor: Any) -> tuple[Any, ...]:
    """Returns columns, normalized weights, their effective number and the covariance of a kernel;
    `factor` is a width, or a function of the effective number and the number of coordinates."""
    points = elementwise.real(shaping.atleast_2d(operand(dataset)))
    count = points.shape[1]
    shares = (
        creation.full((count,), 1.0, points.dtype_name) if weights is None else operand(weights)
    )
    shares = elementwise.astype(shares, points.dtype_name)
    shares = shares / reductions.sum(shares)
    effective = 1 / reductions.sum(shares * shares)
    width = factor(effective, points.shape[0]) if callable(factor) else factor
    return points, shares, effective, _covariance(points, shares) * width * width


FACTORS: dict[str, Callable[[Any, int], Any]] = {
    "scott": lambda n, d: n ** (-1.0 / (d + 4)),
    "silverman": lambda n, d: (n * (d + 2) / 4.0) ** (-1.0 / (d + 4)),
}


@exported
class gaussian_kde:  # the name of SciPy
    """A density estimated by normal kernels at the columns of `dataset` (coordinates, points).

    `bw_method` is "scott", "silverman" or the width of the kernel in deviations of the data.
    """

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        factor = FACTORS.get(bw_method or "scott") if bw_method is None else bw_method
        if isinstance(bw_method, str):
            factor = FACTORS.get(bw_method)
        if factor is None:
            message = f"gaussian_kde: bw_method: expected one of {', '.join(FACTORS)} or a number"
            raise DiagnosticError(Diagnostic(f"{message}, found {bw_method!r}", code="E1107"))
        fitted = _fitted(dataset, weights, factor)
        self.dataset, self.weights, self.neff, self.covariance = fitted

    @property
    def d(self) -> Any:
        """The number of coordinates."""
        return self.dataset.shape[0]

    @property
    def n(self) -> Any:
        """The number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: Any) -> Any:
        """Returns the density at the columns of `points`."""
        return reals.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def logpdf(self, points: Any) -> Any:
        """Returns the logarithm of the density at the columns of `points`."""
        return _log_density(self.dataset, self.weights, self.covariance, points)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """Returns the mass between two limits of a density of one coordinate."""
        return _mass(self.dataset, self.weights, self.covariance, low, high)

    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Returns samples of the density, with the coordinates along axis 0."""
        return _resampled(self.dataset, self.weights, self.covariance, key, shape)


@traced
def _log_density(dataset: Any, weights: Any, covariance: Any, points: Any) -> TracedArray:
    data, shares, matrix, places = (operand(x) for x in (dataset, weights, covariance, points))
    places = shaping.atleast_2d(places)
    if places.shape[0] == 1 and data.shape[0] != 1:  # one point
        places = places.T
    factor = linalg.cholesky(matrix)
    columns, centres = (linalg.solve_triangular(factor, x, lower=True) for x in (places, data))
    distance = reductions.sum(reals.square(columns[:, :, None] - centres[:, None, :]), 0)
    norm = reductions.sum(reals.log(creation.diagonal(factor)))
    norm = norm + data.shape[0] * math.log(2 * math.pi) / 2
    return logsumexp(reals.log(shares) - distance / 2, -1) - norm


@traced
def _mass(dataset: Any, weights: Any, covariance: Any, low: Any, high: Any) -> TracedArray:
    data, shares, matrix = (operand(x) for x in (dataset, weights, covariance))
    deviation = reals.sqrt(matrix[0, 0])
    upper, lower = (ndtr((operand(x) - data[0]) / deviation) for x in (high, low))
    return reductions.sum(shares * (upper - lower))


@traced
def _resampled(dataset: Any, weights: Any, covariance: Any, key: Any, shape: Any) -> TracedArray:
    data, matrix = operand(dataset), operand(covariance)
    first, second = split(key)
    index = choice(first, data.shape[1], shape, p=weights)
    zeros = creation.zeros((data.shape[0],), data.dtype_name)
    noise = multivariate_normal(second, zeros, matrix, shape)
    return data[:, index] + noise.T
