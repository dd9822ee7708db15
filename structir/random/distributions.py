"""Samples of distributions."""

from __future__ import annotations

import math
from typing import Any

from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, ShapeExpr
from structir.lazy import lazy_module
from structir.numpy.creation import arange, full
from structir.numpy.elementwise import maximum, where
from structir.numpy.indexing import take, take_along_axis
from structir.numpy.linalg import cholesky
from structir.numpy.reals import log, log1p
from structir.numpy.reductions import argmax, cumsum, sum
from structir.numpy.shaping import reshape
from structir.numpy.sorting import argsort, searchsorted
from structir.random.keys import bits, split
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, numpy_name, operand
from structir.tracing.context import traced
from structir.tracing.size import as_dims, is_size

np = lazy_module("numpy")
ONE_BITS = 0x3F800000  # the bits of 1.0 in float32
MANTISSA_SHIFT = 9  # 32 bits without the 23 of the mantissa


def _sizes(shape: Any) -> Any:
    return () if shape is None else shape


def _constant(value: Any, dtype: str) -> TracedArray:
    return TracedArray(Constant(np.asarray(value, numpy_dtype(dtype))))


def unit_floats(words: TracedArray) -> TracedArray:
    """Returns uniform float32 from 0 below 1: random bits as the mantissa of a number below 2."""
    mantissa = words >> _constant(MANTISSA_SHIFT, "uint32")
    numbers = mantissa | _constant(ONE_BITS, "uint32")
    view = R.memory.view(expression(numbers), shape=ShapeExpr(numbers.dims), dtype="float32")
    return emit(view) - 1.0


@traced
def uniform(
    key: Any, shape: Any = (), dtype: Any = "float32", minval: Any = 0.0, maxval: Any = 1.0
) -> TracedArray:
    """Returns uniform samples from `minval` below `maxval`."""
    low, high = cast(operand(minval), "float32"), cast(operand(maxval), "float32")
    samples = unit_floats(bits(key, shape)) * (high - low) + low
    return cast(maximum(low, samples), numpy_name(dtype))


@traced
def normal(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the standard normal distribution."""
    return cast(normal_floats(unit_floats(bits(key, shape))), numpy_name(dtype))


def normal_floats(uniforms: TracedArray) -> TracedArray:
    """Returns normal samples for uniform ones from 0 below 1."""
    lowest = np.nextafter(np.float32(-1), np.float32(0))
    low, width = (_constant(value, "float32") for value in (lowest, np.float32(1) - lowest))
    return _inverse_erf(maximum(low, uniforms * width + low)) * math.sqrt(2)


def _inverse_erf(x: TracedArray) -> TracedArray:
    wide = expression(cast(x, "float64"))
    return cast(emit(R.erfinv(wide)), "float32")


@traced
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = "float32"
) -> TracedArray:
    """Returns samples of the standard normal distribution between two limits."""
    low, high = operand(lower).astype("float32"), operand(upper).astype("float32")
    root = math.sqrt(2)
    a, b = (emit(R.erf(expression(v / root))) for v in (low, high))
    sizes = (low + high).shape if shape is None else shape
    samples = _inverse_erf(uniform(key, sizes, "float32", a, b)) * root
    below = emit(R.maximum(expression(samples), expression(low)))
    return cast(emit(R.minimum(expression(below), expression(high))), numpy_name(dtype))


@traced
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> TracedArray:
    """Returns True with probability p."""
    probability = operand(p).astype("float32")
    return uniform(key, probability.shape if shape is None else shape) < probability


@traced
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = "int32") -> TracedArray:
    """Returns uniform integers from `minval` below `maxval`."""
    first, second = (bits(k, shape) for k in split(key))
    low, high = cast(operand(minval), "int32"), cast(operand(maxval), "int32")
    span = cast(high - low, "uint32")
    span = where(high > low, span, _constant(1, "uint32"))
    half = _constant(2**16, "uint32") % span
    multiplier = (half * half) % span
    offset = ((first % span) * multiplier + second % span) % span
    return cast(low + cast(offset, "int32"), numpy_name(dtype))


@traced
def gumbel(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the standard Gumbel distribution."""
    tiny = float(np.finfo(np.float32).tiny)
    return cast(-log(-log(uniform(key, shape, "float32", tiny, 1.0))), numpy_name(dtype))


@traced
def exponential(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the exponential distribution with rate 1."""
    return cast(-log1p(-uniform(key, shape)), numpy_name(dtype))


@traced
def laplace(key: Any, shape: Any = (), dtype: Any = "float32") -> TracedArray:
    """Returns samples of the standard Laplace distribution."""
    epsilon = float(np.finfo(np.float32).eps)
    u = uniform(key, shape, "float32", -1 + epsilon, 1.0)
    return cast(_signed_log(u), numpy_name(dtype))


def _signed_log(u: TracedArray) -> TracedArray:
    sign = emit(R.sign(expression(u)))
    return sign * log1p(-abs(u))


@traced
def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> TracedArray:
    """Returns indices with probabilities softmax(logits) along an axis, as int32."""
    values = operand(logits)
    position = axis % values.ndim
    rest = [s for k, s in enumerate(values.shape) if k != position]
    sizes = tuple(rest) if shape is None else tuple(shape)
    more = sizes[: len(sizes) - len(rest)]
    full_shape = (*more, *values.shape)
    return argmax(gumbel(key, full_shape) + values, axis=len(more) + position)


@traced
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> TracedArray:
    """Returns a random order of the slices along an axis, or of `arange(x)`.

    With `independent`, each vector along the axis has an order of its own. The order is that of
    random 32-bit keys; it differs from JAX's above 2**16 elements or so.
    """
    array = arange(x) if is_size(x) else operand(x)
    if independent:
        for _ in range(_sorting_rounds(array.size)):
            key, subkey = split(key)
            ranks = argsort(_sortable(bits(subkey, array.shape)), axis)
            array = take_along_axis(array, ranks, axis)
        return array
    count = array.shape[axis]
    order = arange(count)
    for _ in range(_sorting_rounds(count)):
        key, subkey = split(key)
        ranks = argsort(_sortable(bits(subkey, (count,))))
        order = take(order, ranks, 0)
    return take(array, order, axis)


def _sorting_rounds(count: Any) -> int:
    """Returns the number of sorts that make equal keys unlikely, as JAX counts them."""
    known = count if isinstance(count, int) else 2**16
    return max(1, math.ceil(3 * math.log(max(known, 1)) / math.log(2**32 - 1)))


def _sortable(x: TracedArray) -> TracedArray:
    """Returns uint32 as int64, which sort alike."""
    return cast(x, "int64")


shuffle = permutation


@traced
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> TracedArray:
    """Returns random slices of an axis, or of `arange(a)`."""
    array = arange(a) if is_size(a) else operand(a)
    count = array.shape[axis]
    if not replace:
        total: Any = 1
        for s in as_dims(_sizes(shape)):
            total = s * total
        if p is not None:
            order = argsort(-gumbel(key, (count,)) - log(operand(p)))[:total]
        else:
            order = permutation(key, count)[:total]
        index = reshape(order, shape)
    elif p is None:
        index = randint(key, shape, 0, count)
    else:
        sums = cumsum(operand(p).astype("float32"))
        r = sums[-1] * (1 - uniform(key, shape))
        index = searchsorted(sums, r)
    return take(array, index, axis)


@traced
def multivariate_normal(key: Any, mean: Any, cov: Any, shape: Any = None) -> TracedArray:
    """Returns samples of a multivariate normal distribution."""
    centre, factor = operand(mean), cholesky(cov)
    sizes = () if shape is None else tuple(shape)
    samples = normal(key, (*sizes, centre.shape[-1]))
    return centre + sum(factor * samples[..., None, :], -1)


@traced
def rademacher(key: Any, shape: Any = (), dtype: Any = "int32") -> TracedArray:
    """Returns -1 or 1 with equal probability."""
    signs = bernoulli(key, 0.5, tuple(as_dims(shape)))
    return where(signs, full((), 1, dtype), full((), -1, dtype))
