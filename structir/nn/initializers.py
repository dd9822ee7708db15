"""Initial values of weights: functions `(key, shape, dtype) -> array`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from structir import random
from structir.errors import Diagnostic, DiagnosticError
from structir.numpy import creation, elementwise, linalg, shaping, updates
from structir.numpy.creation import full
from structir.numpy.creation import ones as ones_of
from structir.numpy.creation import zeros as zeros_of

Initializer = Callable[..., Any]
NARROWING = 0.87962566103423978  # the deviation of a normal distribution truncated at 2
__all__ = [
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]


def zeros(key: Any, shape: Sequence[int], dtype: Any = "float32") -> Any:
    """Returns zeros."""
    return zeros_of(shape, dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = "float32") -> Any:
    """Returns ones."""
    return ones_of(shape, dtype)


def constant(value: float) -> Initializer:
    """Returns an initializer with one value."""
    return lambda key, shape, dtype="float32": full(shape, value, dtype)


def normal(stddev: float = 0.01) -> Initializer:
    """Returns an initializer with normal values."""
    return lambda key, shape, dtype="float32": random.normal(key, shape, dtype) * stddev


def uniform(scale: float = 0.01) -> Initializer:
    """Returns an initializer with uniform values from 0 to `scale`."""
    return lambda key, shape, dtype="float32": random.uniform(key, shape, dtype) * scale


def truncated_normal(stddev: float = 0.01, lower: float = -2.0, upper: float = 2.0) -> Initializer:
    """Returns an initializer with `stddev` times standard normal values between two limits.

    The standard deviation of the values is smaller: 0.88 times `stddev` for the limits -2 and 2.
    """
    return lambda key, shape, dtype="float32": (
        random.truncated_normal(key, lower, upper, shape, dtype) * stddev
    )


def orthogonal(scale: float = 1.0, column_axis: int = -1) -> Initializer:
    """Returns an initializer with orthogonal columns, or rows where there are fewer of these."""

    def initialize(key: Any, shape: Sequence[int], dtype: Any = "float32") -> Any:
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        samples = random.normal(key, (max(rows, columns), min(rows, columns)), dtype)
        q, r = linalg.qr(samples)
        q = q * elementwise.sign(creation.diagonal(r))
        matrix = q.T if rows < columns else q
        rest = [size for k, size in enumerate(shape) if k != column_axis % len(shape)]
        moved = shaping.moveaxis(shaping.reshape(matrix, (*rest, columns)), -1, column_axis)
        return moved * scale

    return initialize


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1) -> Initializer:
    """Returns an initializer of convolutions: an orthogonal matrix in the centre, and zeros.

    The last two axes are inputs and outputs; there are 3 to 5 axes, and at least as many outputs.
    Source: Xiao et al., ICML 2018.
    """

    def initialize(key: Any, shape: Sequence[int], dtype: Any = "float32") -> Any:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            expected = "expected 3 to 5 axes with at least as many outputs as inputs"
            message = f"delta_orthogonal: {expected}, found {tuple(shape)}"
            raise DiagnosticError(Diagnostic(message, code="E1107"))
        matrix = orthogonal(scale, column_axis)(key, shape[-2:], dtype)
        centre = tuple([(size - 1) // 2 for size in shape[:-2]])
        blank = zeros_of(shape, dtype)
        return updates.updated(blank, centre, matrix, "set")

    return initialize


def _fans(shape: Sequence[int], in_axis: int, out_axis: int) -> tuple[float, float]:
    field = math.prod(shape) / (shape[in_axis] * shape[out_axis])
    return shape[in_axis] * field, shape[out_axis] * field


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: int = -2, out_axis: int = -1
) -> Initializer:
    """Returns an initializer with variance `scale` divided by the fan of `mode`.

    Modes: fan_in, fan_out, fan_avg. Distributions: normal, uniform, truncated_normal.
    Source: Glorot and Bengio, AISTATS 2010; He et al., ICCV 2015.
    """

    def initialize(key: Any, shape: Sequence[int], dtype: Any = "float32") -> Any:
        fan_in, fan_out = _fans(shape, in_axis, out_axis)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
        variance = scale / fan
        if distribution == "uniform":
            limit = math.sqrt(3 * variance)
            return random.uniform(key, shape, dtype, -limit, limit)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * math.sqrt(variance)
        stddev = math.sqrt(variance) / NARROWING
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * stddev

    return initialize


def glorot_uniform() -> Initializer:
    """Returns the uniform initializer of Glorot and Bengio."""
    return variance_scaling(1.0, "fan_avg", "uniform")


def glorot_normal() -> Initializer:
    """Returns the normal initializer of Glorot and Bengio."""
    return variance_scaling(1.0, "fan_avg", "truncated_normal")


def he_uniform() -> Initializer:
    """Returns the uniform initializer of He et al."""
    return variance_scaling(2.0, "fan_in", "uniform")


def he_normal() -> Initializer:
    """Returns the normal initializer of He et al."""
    return variance_scaling(2.0, "fan_in", "truncated_normal")


def lecun_uniform() -> Initializer:
    """Returns the uniform initializer with variance 1 / fan_in."""
    return variance_scaling(1.0, "fan_in", "uniform")


def lecun_normal() -> Initializer:
    """Returns the normal initializer with variance 1 / fan_in."""
    return variance_scaling(1.0, "fan_in", "truncated_normal")


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
