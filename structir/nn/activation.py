"""Activations, softmax, normalisation and one-hot encoding."""

from __future__ import annotations

import math
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.numpy.creation import arange, ones_like
from structir.numpy.elementwise import abs as absolute
from structir.numpy.elementwise import (
    apply,
    clip,
    maximum,
    minimum,
    real,
    real_operands,
    sign,
    where,
)
from structir.numpy.reals import exp, expm1, log, log1p, logaddexp, sigmoid, square, tanh
from structir.numpy.reductions import logsumexp as log_sum_exp
from structir.numpy.reductions import max, scaled_sum, stop_gradient, sum, var
from structir.numpy.reductions import mean as mean_of
from structir.numpy.shaping import axes_of, axis_of, split, squeeze
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, operand
from structir.tracing.context import traced
from structir.tracing.size import is_size


@traced
def relu(x: Any) -> TracedArray:
    """Returns max(x, 0), of bools as int32."""
    return apply(R.nn.relu, _number(x))


def _number(x: Any) -> TracedArray:
    """Returns an array of numbers: bools become int32."""
    array = operand(x)
    return cast(array, "int32") if array.dtype_name == "bool" else array


@traced
def relu6(x: Any) -> TracedArray:
    """Returns min(max(x, 0), 6), whose derivative at 0 and at 6 is 0."""
    positive = apply(R.nn.relu, real(x))
    return where(positive >= 6, 6, positive)


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
    return where(array > 0, array, alpha * expm1(where(array > 0, 0, array)))


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
    array = _number(x)
    return where(array >= 0, array, negative_slope * array)


@traced
def hard_tanh(x: Any) -> TracedArray:
    """Returns x limited to [-1, 1], whose derivative at both ends is 1."""
    array = _number(x)
    result = where(array > 1, 1, array)
    return result if array.dtype_name.startswith("uint") else where(array < -1, -1, result)


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
def identity(x: Any) -> TracedArray:
    """Returns x."""
    return operand(x)


@traced
def sparse_plus(x: Any) -> TracedArray:
    """Returns 0 up to -1, x from 1 on, and (x + 1)**2 / 4 between."""
    array = real(x)
    return where(array <= -1, 0, where(array >= 1, array, square(array + 1) / 4))


@traced
def sparse_sigmoid(x: Any) -> TracedArray:
    """Returns (x + 1) / 2 limited to [0, 1], the derivative of `sparse_plus`."""
    return clip(real(x) + 1, 0, 2) / 2


@traced
def log1mexp(x: Any) -> TracedArray:
    """Returns log(1 - exp(-x)) of positive x. Source: Maechler, 2012."""
    array = real(x)
    is_small = array < math.log(2)
    small, large = where(is_small, array, 1), where(is_small, 1, array)
    return where(is_small, log(-expm1(-small)), log1p(-exp(-large)))


@traced
def softmax(x: Any, axis: Any = -1, where: Any = None) -> TracedArray:
    """Returns exp(x) divided by its sum over axes; 0 where a mask is false."""
    array = real(x)
    if where is None and isinstance(axis, int):
        return emit(R.nn.softmax(expression(array), axis=axis_of(axis, array.ndim)))
    _, exponentials, total = _shifted(array, axis, where)
    return exponentials / total


def _shifted(x: TracedArray, axis: Any, mask: Any) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Returns x less its largest element, -inf where a mask is false, the exponentials of this,
    and their sum over axes; 1 of none."""
    array = x if mask is None else masked(x, mask)
    highest = stop_gradient(max(array, axis, keepdims=True))
    if mask is not None:
        highest = where(highest == -math.inf, 0, highest)
    array = array - highest
    exponentials = exp(array)
    total = sum(exponentials, axis, keepdims=True)
    return array, exponentials, total if mask is None else where(total == 0, 1, total)


def masked(x: TracedArray, mask: Any) -> TracedArray:
    """Returns x, and -inf where a mask is false."""
    return where(mask, x, -math.inf)


@traced
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> TracedArray:
    """Returns the logarithm of softmax; -inf where a mask is false."""
    array = real(x)
    if where is None and isinstance(axis, int):
        return emit(R.nn.log_softmax(expression(array), axis=axis_of(axis, array.ndim)))
    shifted, _, total = _shifted(array, axis, where)
    return shifted - log(total)


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
    if where is None and not return_sign:
        return log_sum_exp(array, axis, b, keepdims)
    total, highest = scaled_sum(array, axis, b)
    size = absolute(total) if return_sign else total
    results = [_logarithm_of_sum(size) + highest, sign(total)]
    if not keepdims:
        axes = tuple(axes_of(axis, total.ndim))
        results = [squeeze(result, axes) for result in results]
    return tuple(results) if return_sign else results[0]


@traced
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the logarithm of the mean of exp(x) over axes, of the elements where a mask is
    true."""
    array = real(x)
    total = logsumexp(array, axis, keepdims=keepdims, where=where)
    counted = sum(ones_like(array), axis, keepdims=keepdims, where=where)
    return total - log(counted)


def _logarithm_of_sum(total: TracedArray) -> TracedArray:
    """Returns the logarithm, through which no gradient flows where the sum is 0."""
    is_none = total == 0
    return where(is_none, -math.inf, log(where(is_none, 1, total)))


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
    (centred, squares), _ = real_operands(array - middle, spread)
    return centred / (squares + epsilon) ** 0.5


normalize = standardize


@traced
def one_hot(x: Any, num_classes: Any, *, dtype: Any = None, axis: int = -1) -> TracedArray:
    """Returns 1 at the position of each number along a new axis, 0 elsewhere.

    Raises DiagnosticError for a `num_classes` that is no size.
    """
    if not is_size(num_classes) or (isinstance(num_classes, int) and num_classes < 0):
        message = f"one_hot: num_classes: expected a size, found {num_classes!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    numbers = operand(x)
    position = axis_of(axis, numbers.ndim + 1)
    shape = [1] * (numbers.ndim + 1)
    shape[position] = -1
    classes = arange(num_classes).reshape(shape)
    sizes = list(numbers.dims)
    sizes.insert(position, 1)
    hits = numbers.reshape(tuple(sizes)) == classes
    return cast(hits, float if dtype is None else dtype)


__all__ = [
    "sigmoid",
    "tanh",
]
