"""Samples of the gamma distribution, and of distributions that follow from it.

Source: Marsaglia and Tsang, "A simple method for generating gamma variables", TOMS 2000.
"""

from __future__ import annotations

from typing import Any

from structir.nn.activation import softmax
from structir.numpy import elementwise, reals, reductions, shaping
from structir.numpy.creation import arange, full_like, zeros_like
from structir.random.distributions import (
    exponential,
    normal,
    normal_floats,
    rademacher,
    unit_floats,
)
from structir.random.keys import split, threefry, word
from structir.random.transformed import lengths, parameters_of, sizes_of
from structir.scipy.special.incomplete import samples_by_order
from structir.tracing.array import TracedArray, cast, numpy_name
from structir.tracing.context import traced
from structir.transforms.control import while_loop
from structir.transforms.custom import custom_jvp

SQUEEZE = 0.0331
Words = tuple[TracedArray, TracedArray]  # of one key for each element


def _children(key: Words, count: int) -> list[Words]:
    """Returns the keys that `split` gives for each key: all by one hash, which is 130 ops."""
    numbers = shaping.reshape(cast(arange(count, dtype="int64"), "uint32"), (count, 1))
    first, second = threefry(*key, word(0), numbers)
    return [(first[k], second[k]) for k in range(count)]


def _unit(key: Words) -> TracedArray:
    """Returns one uniform sample for each key."""
    return unit_floats(elementwise.bitwise_xor(*threefry(*key, word(0), word(0))))


def _kept(is_open: TracedArray, after: Any, before: Any) -> Any:
    """Returns new values of the elements whose loop goes on."""
    pairs = zip(after, before, strict=True)
    return tuple([elementwise.where(is_open, a, b) for a, b in pairs])


def _sampled(a: TracedArray, first: TracedArray, second: TracedArray) -> tuple[TracedArray, ...]:
    """Returns for each parameter and key: whether it is at least 1, d, d times the sample of a
    unit scale, and the key of the sample that scales those below 1."""
    is_large = a >= 1
    d = elementwise.where(is_large, a, a + 1) - (1 / 3)
    c = (1 / 3) / reals.sqrt(d)

    def is_rejected(state: Any) -> TracedArray:
        _, _, squared, cube, uniform = state
        bound = squared * 0.5 + d * ((1 - cube) + reals.log(cube))
        is_outside = uniform >= 1 - SQUEEZE * (squared * squared)
        return is_outside & (reals.log(uniform) >= bound)

    def attempt(state: Any) -> Any:
        key = state[:2]
        following, of_normal, of_uniform = _children(key, 3)
        x, v = _positive(of_normal, c)
        after = (*following, x * x, v * v * v, _unit(of_uniform))
        return _kept(is_rejected(state), after, state)

    initial, last = _children((first, second), 2)
    start = (*initial, zeros_like(a), full_like(a, 1.0), full_like(a, 2.0))
    cube = while_loop(lambda s: reductions.any(is_rejected(s)), attempt, start)[3]
    return is_large, d, cube, *last


def _positive(key: Words, c: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Returns a normal sample x for which v = 1 + c x is positive, and v."""

    def attempt(state: Any) -> Any:
        following, of_normal = _children(state[:2], 2)
        x = normal_floats(_unit(of_normal))
        return _kept(state[3] <= 0, (*following, x, 1 + x * c), state)

    start = (*key, zeros_like(c), full_like(c, -1.0))
    _, _, x, v = while_loop(lambda s: reductions.any(s[3] <= 0), attempt, start)
    return x, v


@custom_jvp
def _samples(first: Any, second: Any, a: Any) -> TracedArray:
    is_large, d, cube, *last = _sampled(a, first, second)
    drawn = 1 - _unit((last[0], last[1]))
    return d * cube * elementwise.where(is_large, 1.0, drawn ** (1 / a))


@custom_jvp
def _logarithms(first: Any, second: Any, a: Any) -> TracedArray:
    is_large, d, cube, *last = _sampled(a, first, second)
    drawn = reals.log1p(-_unit((last[0], last[1])))
    scale = elementwise.where(is_large | (drawn == 0), 0.0, drawn * (1 / a))
    return (reals.log(d) + reals.log(cube)) + scale


def _by_order(a: TracedArray, sample: TracedArray) -> TracedArray:
    wide = samples_by_order(cast(a, "float64"), cast(sample, "float64"))
    return cast(wide, "float32")


@_samples.defjvp
def _tangent_of_samples(primals: Any, tangents: Any) -> Any:
    value = _samples(*primals)
    return value, _by_order(primals[2], value) * tangents[2]


@_logarithms.defjvp
def _tangent_of_logarithms(primals: Any, tangents: Any) -> Any:
    value = _logarithms(*primals)
    sample = elementwise.maximum(reals.exp(value), 2.0**-126)
    return value, _by_order(primals[2], sample) / sample * tangents[2]


def _drawn(function: Any, key: Any, a: Any, shape: Any) -> TracedArray:
    (order,) = parameters_of(a)
    sizes = sizes_of(shape, order)
    flat = shaping.ravel(shaping.broadcast_to(order, sizes))
    words = split(key, flat.shape[0])
    return shaping.reshape(function(words[:, 0], words[:, 1], flat), sizes)


@traced
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the gamma distribution, differentiable by `a`."""
    return cast(_drawn(_samples, key, a, shape), numpy_name(dtype))


@traced
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns logarithms of samples of the gamma distribution, accurate for small `a`."""
    return cast(_drawn(_logarithms, key, a, shape), numpy_name(dtype))


@traced
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the beta distribution."""
    orders = parameters_of(a, b)
    sizes = sizes_of(shape, *orders)
    first, second = (loggamma(k, order, sizes) for k, order in zip(split(key), orders, strict=True))
    largest = elementwise.maximum(first, second)
    x, y = reals.exp(first - largest), reals.exp(second - largest)
    return cast(x / (x + y), numpy_name(dtype))


@traced
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the Dirichlet distribution along the last axis."""
    (order,) = parameters_of(alpha)
    outer = order.shape[:-1] if shape is None else tuple(shape)
    samples = loggamma(key, order, (*outer, order.shape[-1]))
    return cast(softmax(samples, -1), numpy_name(dtype))


@traced
def t(key: Any, df: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of Student's t distribution."""
    (freedom,) = parameters_of(df)
    sizes = freedom.shape if shape is None or shape == () else shape
    first, second = split(key)
    half = freedom / 2
    samples = normal(first, sizes) * reals.sqrt(half / gamma(second, half, sizes))
    return cast(samples, numpy_name(dtype))


@traced
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the chi-squared distribution."""
    (freedom,) = parameters_of(df)
    return cast(reals.exp(loggamma(key, freedom / 2, shape)) * 2, numpy_name(dtype))


@traced
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = "float32") -> TracedArray:
    """Returns samples of the F distribution."""
    upper, lower = parameters_of(dfnum, dfden)
    sizes = sizes_of(shape, upper, lower)
    second, first = split(key)
    ratio = (chisquare(first, upper, sizes) / upper) / (chisquare(second, lower, sizes) / lower)
    return cast(ratio, numpy_name(dtype))


@traced
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples with a density proportional to exp(-|x|**p)."""
    first, second = split(key)
    samples = gamma(first, 1 / p, shape)
    return cast(rademacher(second, shape, "float32") * samples ** (1 / p), numpy_name(dtype))


@traced
def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns uniform samples of the ball of d coordinates whose p-norm is at most 1."""
    first, second = split(key)
    samples = generalized_normal(first, p, (*shape, d))
    size = lengths(samples, p) + exponential(second, shape)
    return cast(samples / shaping.expand_dims(size ** (1 / p), -1), numpy_name(dtype))
