"""Activations, softmax, normalisation, one-hot encoding and attention."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy.contraction import matmul
from structir.numpy.creation import arange, ones, tril
from structir.numpy.elementwise import abs as absolute
from structir.numpy.elementwise import apply, clip, maximum, minimum, real, sign, where
from structir.numpy.reals import exp, expm1, logaddexp, sigmoid, square, tanh
from structir.numpy.reductions import logsumexp as log_sum_exp
from structir.numpy.reductions import max, sum, var
from structir.numpy.reductions import mean as mean_of
from structir.numpy.shaping import axis_of, split
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, operand
from structir.tracing.context import traced


@traced
def relu(x: Any) -> TracedArray:
    """Returns max(x, 0)."""
    return apply(R.nn.relu, operand(x))


@traced
def relu6(x: Any) -> TracedArray:
    """Returns min(max(x, 0), 6)."""
    return apply(R.nn.relu6, operand(x))


@traced
def gelu(x: Any, approximate: bool = True) -> TracedArray:
    """Returns x times the normal distribution function of x, approximated with tanh by default."""
    return apply(R.nn.gelu_tanh if approximate else R.nn.gelu, real(x))


@traced
def silu(x: Any) -> TracedArray:
    """Returns x * sigmoid(x)."""
    return apply(R.nn.silu, real(x))


swish = silu


@traced
def log_sigmoid(x: Any) -> TracedArray:
    """Returns log(sigmoid(x))."""
    return -softplus(-real(x))


@traced
def softplus(x: Any) -> TracedArray:
    """Returns log(1 + exp(x))."""
    return logaddexp(x, 0.0)


@traced
def soft_sign(x: Any) -> TracedArray:
    """Returns x / (1 + |x|)."""
    array = real(x)
    return array / (absolute(array) + 1)


@traced
def elu(x: Any, alpha: Any = 1.0) -> TracedArray:
    """Returns x above 0, else alpha * (exp(x) - 1)."""
    array = real(x)
    return where(array > 0, array, alpha * expm1(minimum(array, 0)))


@traced
def celu(x: Any, alpha: Any = 1.0) -> TracedArray:
    """Returns max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    array = real(x)
    return maximum(array, 0) + alpha * expm1(minimum(array, 0) / alpha)


@traced
def selu(x: Any) -> TracedArray:
    """Returns the scaled exponential linear unit."""
    return apply(R.nn.selu, real(x))


@traced
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> TracedArray:
    """Returns x above 0, else negative_slope * x."""
    array = real(x)
    return where(array >= 0, array, negative_slope * array)


@traced
def hard_tanh(x: Any) -> TracedArray:
    """Returns x limited to [-1, 1]."""
    return clip(real(x), -1, 1)


@traced
def hard_sigmoid(x: Any) -> TracedArray:
    """Returns relu6(x + 3) / 6."""
    return clip(real(x) + 3, 0, 6) / 6


@traced
def hard_silu(x: Any) -> TracedArray:
    """Returns x * hard_sigmoid(x)."""
    array = real(x)
    return array * hard_sigmoid(array)


hard_swish = hard_silu


@traced
def mish(x: Any) -> TracedArray:
    """Returns x * tanh(softplus(x))."""
    array = real(x)
    return array * tanh(softplus(array))


@traced
def squareplus(x: Any, b: float = 4.0) -> TracedArray:
    """Returns (x + sqrt(x**2 + b)) / 2."""
    array = real(x)
    return (array + (square(array) + b) ** 0.5) / 2


@traced
def glu(x: Any, axis: int = -1) -> TracedArray:
    """Returns the first half of an axis times the sigmoid of the second half."""
    first, second = split(x, 2, axis)
    return first * sigmoid(second)


@traced
def softmax(x: Any, axis: Any = -1, where: Any = None) -> TracedArray:
    """Returns exp(x) divided by its sum over axes."""
    array = real(x)
    if where is not None:
        array = masked(array, where)
    if isinstance(axis, int):
        return emit(R.nn.softmax(expression(array), axis=axis_of(axis, array.ndim)))
    shifted = exp(array - max(array, axis, keepdims=True))
    return shifted / sum(shifted, axis, keepdims=True)


def masked(x: TracedArray, mask: Any) -> TracedArray:
    """Returns x, and -inf where a mask is false."""
    return where(mask, x, -math.inf)


@traced
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> TracedArray:
    """Returns the logarithm of softmax; of -inf where a mask is false."""
    array = real(x) if where is None else masked(real(x), where)
    if isinstance(axis, int):
        return emit(R.nn.log_softmax(expression(array), axis=axis_of(axis, array.ndim)))
    return array - log_sum_exp(array, axis, keepdims=True)


@traced
def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """Returns log(sum(b * exp(a))) over axes, of the elements where a mask is true.

    With `return_sign`, the logarithm of the absolute value of the sum, and its sign.
    """
    array = real(a) if where is None else masked(real(a), where)
    if not return_sign:
        return log_sum_exp(array, axis, b, keepdims)
    largest = max(array, axis, keepdims=True)
    factors = 1 if b is None else b
    signs = sign(sum(factors * exp(array - largest), axis, keepdims=True))
    result = log_sum_exp(array, axis, factors * signs, keepdims)
    return result, signs.reshape(result.shape)


@traced
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 1e-5,
    where: Any = None,
) -> TracedArray:
    """Returns x with mean 0 and variance 1 over axes, or with a mean and variance subtracted."""
    array = real(x)
    middle = mean_of(array, axis, keepdims=True, where=where) if mean is None else mean
    spread = var(array, axis, keepdims=True, where=where) if variance is None else variance
    return (array - middle) / (operand(spread) + epsilon) ** 0.5


normalize = standardize


@traced
def one_hot(x: Any, num_classes: Any, *, dtype: Any = None, axis: int = -1) -> TracedArray:
    """Returns 1 at the position of each number along a new axis, 0 elsewhere."""
    numbers = operand(x)
    position = axis_of(axis, numbers.ndim + 1)
    shape = [1] * (numbers.ndim + 1)
    shape[position] = -1
    classes = arange(num_classes).reshape(shape)
    sizes = list(numbers.dims)
    sizes.insert(position, 1)
    hits = numbers.reshape(tuple(sizes)) == classes
    return cast(hits, float if dtype is None else dtype)


@traced
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> TracedArray:
    """Returns attention of (batch, length, heads, head size) arrays, or without the batch axis."""
    q, k, v = real(query), real(key), real(value)
    if k.shape[-2] != q.shape[-2]:
        repeats = q.shape[-2] // k.shape[-2]
        k, v = k.repeat(repeats, -2), v.repeat(repeats, -2)
    q, k, v = (x.swapaxes(-3, -2) for x in (q, k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = matmul(q, k.swapaxes(-1, -2)) * factor
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = where(mask, scores, -1e30)
    if is_causal:
        lower = tril(ones(scores.shape[-2:], bool))
        scores = where(lower, scores, -1e30)
    return matmul(softmax(scores), v).swapaxes(-3, -2)


__all__ = [
    "sigmoid",
    "tanh",
]
