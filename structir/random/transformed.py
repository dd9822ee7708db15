"""Samples of distributions that are functions of uniform, normal or exponential samples."""

from __future__ import annotations

import math
from typing import Any

from structir.lazy import lazy_module
from structir.numpy import creation, elementwise, linalg, reals, reductions, shaping
from structir.random.distributions import exponential, normal, rademacher, uniform
from structir.random.keys import split
from structir.tracing.array import TracedArray, cast, numpy_name, operand
from structir.tracing.context import traced

np = lazy_module("numpy")


def sizes_of(shape: Any, *parameters: TracedArray) -> Any:
    """Returns a shape; None is that of the parameters, which broadcast."""
    if shape is not None:
        return shape
    sizes: tuple[Any, ...] = ()
    for parameter in parameters:
        sizes = shaping.broadcast_shapes(sizes, parameter.shape)
    return sizes


def parameters_of(*values: Any) -> list[TracedArray]:
    """Returns the parameters of a distribution in float32."""
    return [cast(operand(value), "float32") for value in values]


def _open_uniform(key: Any, shape: Any, least: Any) -> TracedArray:
    return uniform(key, shape, "float32", float(least), 1.0)


@traced
def cauchy(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the standard Cauchy distribution."""
    u = _open_uniform(key, shape, np.finfo(np.float32).eps)
    return cast(reals.tan((u - 0.5) * math.pi), numpy_name(dtype))


@traced
def logistic(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the standard logistic distribution."""
    u = _open_uniform(key, shape, np.finfo(np.float32).tiny)
    return cast(reals.log(u) - reals.log1p(-u), numpy_name(dtype))


@traced
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns exponentials of normal samples of deviation `sigma`."""
    (deviation,) = parameters_of(sigma)
    samples = normal(key, sizes_of(shape, deviation))
    return cast(reals.exp(samples * deviation), numpy_name(dtype))


@traced
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the Pareto distribution."""
    (order,) = parameters_of(b)
    samples = exponential(key, sizes_of(shape, order))
    return cast(reals.exp(samples / order), numpy_name(dtype))


@traced
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the Rayleigh distribution."""
    (width,) = parameters_of(scale)
    u = uniform(key, sizes_of(shape, width))
    return cast(width * reals.sqrt(reals.log(u) * -2), numpy_name(dtype))


@traced
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = "float32"
) -> TracedArray:
    """Returns samples of the Weibull distribution."""
    width, order = parameters_of(scale, concentration)
    samples = -reals.log1p(-uniform(key, shape))
    return cast(samples ** (1.0 / order) * width, numpy_name(dtype))


@traced
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = "float32"
) -> TracedArray:
    """Returns samples of the triangular distribution between two limits."""
    low, middle, high = parameters_of(left, mode, right)
    u = uniform(key, sizes_of(shape, low, middle, high))
    below = low + reals.sqrt(u * (high - low) * (middle - low))
    above = high - reals.sqrt((1 - u) * (high - low) * (high - middle))
    chosen = elementwise.where(u < (middle - low) / (high - low), below, above)
    return cast(chosen, numpy_name(dtype))


@traced
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the Wald distribution, whose scale is 1."""
    (mu,) = parameters_of(mean)
    sizes = sizes_of(shape, mu)
    first, second = split(key)
    y = reals.square(normal(first, sizes))
    z = uniform(second, sizes)
    squared = mu * mu
    root = reals.sqrt(4 * mu * y + squared * reals.square(y))
    x = mu + squared * y / 2 - mu / 2 * root
    return cast(elementwise.where(z <= mu / (mu + x), x, squared / x), numpy_name(dtype))


@traced
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = "int32") -> TracedArray:
    """Returns numbers of trials up to the first success."""
    (share,) = parameters_of(p)
    u = uniform(key, sizes_of(shape, share))
    logarithm = reals.log(elementwise.where(u == 0, 1.0, u))
    return cast(reals.floor(logarithm / reals.log1p(-share)) + 1, numpy_name(dtype))


@traced
def maxwell(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the Maxwell distribution: lengths of normal vectors of 3 elements."""
    samples = normal(key, (*_as_tuple(shape), 3))
    return cast(linalg.norm(samples, axis=-1), numpy_name(dtype))


def _as_tuple(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


@traced
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = "float32"
) -> TracedArray:
    """Returns samples of the Maxwell distribution with random signs, scaled and moved."""
    middle, width = parameters_of(loc, scale)
    own = shaping.broadcast_shapes(middle.shape, width.shape)
    sizes = (*(_as_tuple(shape) or own), *own)
    first, second = split(key)
    signs = rademacher(second, sizes, "float32")
    return cast(signs * maxwell(first, sizes) * width + middle, numpy_name(dtype))


@traced
def orthogonal(
    key: Any, n: int, shape: Any = (), dtype: Any = "float32", m: int | None = None
) -> TracedArray:
    """Returns random orthogonal matrices (n, n), or matrices (n, m) with orthonormal columns, or
    rows where there are fewer of these."""
    columns = n if m is None else m
    samples = normal(key, (*_as_tuple(shape), max(n, columns), min(n, columns)))
    q, r = linalg.qr(samples)
    signs = elementwise.sign(creation.diagonal(r, 0, -2, -1))
    matrix = q * shaping.expand_dims(signs, -2)
    return cast(matrix if n >= columns else matrix.mT, numpy_name(dtype))


@traced
def clone(key: Any) -> TracedArray:
    """Returns the key: a key may be used again."""
    return operand(key)


def lengths(samples: TracedArray, p: Any) -> TracedArray:
    """Returns the sums of powers of the magnitudes along the last axis."""
    return reductions.sum(elementwise.abs(samples) ** p, -1)
