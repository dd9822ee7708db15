"""Error functions, logarithms of sums, and other special functions."""

import math

import structir.nn.activation as activation
from structir.lax.primitives import digamma, erfc
from structir.lax.primitives import erf_inv as erfinv
from structir.lax.primitives import lgamma as gammaln
from structir.nn.activation import logsumexp
from structir.nn.activation import sigmoid as expit
from structir.numpy import elementwise, reals
from structir.numpy.elementwise import real, real_operands
from structir.numpy.reals import erf, log1p
from structir.script import R
from structir.tracing.array import TracedArray
from structir.tracing.context import traced

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "gammaln",
    "log1p",
    "log_softmax",
    "logit",
    "logsumexp",
    "ndtr",
    "ndtri",
    "softmax",
    "xlogy",
]


@traced
def softmax(x: object, axis: object = None) -> TracedArray:
    """Returns exp(x) divided by its sum over axes, by default over all."""
    array = real(x)
    return activation.softmax(array, _axis(axis, array))


def _axis(axis: object, array: TracedArray) -> object:
    """Returns axes of which None is all."""
    if axis is not None:
        return axis
    return 0 if array.ndim == 1 else tuple(range(array.ndim))


@traced
def log_softmax(x: object, axis: object = None) -> TracedArray:
    """Returns the logarithm of softmax."""
    array = real(x)
    return activation.log_softmax(array, _axis(axis, array))


@traced
def logit(x: object) -> TracedArray:
    """Returns log(x / (1 - x))."""
    array = real(x)
    return reals.log(array / (1 - array))


@traced
def xlogy(x: object, y: object) -> TracedArray:
    """Returns x * log(y), and 0 where x is 0."""
    (a, b), _ = real_operands(x, y)
    is_bounded = (b > 0) & (b < math.inf)  # where the derivative by x is log(y)
    safe = elementwise.where((a == 0) & ~elementwise.isnan(b) & ~is_bounded, 1, b)
    return a * reals.log(safe)


@traced
def entr(x: object) -> TracedArray:
    """Returns -x * log(x)."""
    array = real(x)
    return elementwise.where(array < 0, -math.inf, -xlogy(array, array))


@traced
def ndtr(x: object) -> TracedArray:
    """Returns the distribution function of the standard normal distribution."""
    return erfc(real(x) / -(2**0.5)) / 2


@traced
def ndtri(p: object) -> TracedArray:
    """Returns the inverse of the distribution function of the standard normal distribution."""
    return elementwise.apply(R.ndtri, real(p))


def _transformed(logarithm: TracedArray, power: TracedArray) -> TracedArray:
    """Returns (x**power - 1) / power for the logarithm of x, which is the limit for 0."""
    is_zero = power == 0
    exponent = elementwise.where(is_zero, 1, power)
    return elementwise.where(is_zero, logarithm, reals.expm1(exponent * logarithm) / exponent)


@traced
def boxcox(x: object, lmbda: object) -> TracedArray:
    """Returns (x**lmbda - 1) / lmbda, and log(x) where lmbda is 0."""
    (array, power), _ = real_operands(x, lmbda)
    return _transformed(reals.log(array), power)


@traced
def boxcox1p(x: object, lmbda: object) -> TracedArray:
    """Returns the function boxcox of 1 + x, accurate for small x."""
    (array, power), _ = real_operands(x, lmbda)
    return _transformed(log1p(array), power)
