"""Exponential integrals and the dilogarithm.

Sources: Abramowitz and Stegun, 5.1; Cephes.
"""

from __future__ import annotations

import math
from typing import Any

from structir.lax.primitives import digamma
from structir.numpy import elementwise, reals
from structir.numpy.creation import full_like, ones_like, zeros_like
from structir.scipy.derivatives import differentiable
from structir.tracing.array import TracedArray
from structir.tracing.context import traced
from structir.transforms.control import fori_loop

EULER = 0.5772156649015329
SERIES_TERMS = 20  # of expn, for x of at most 1
FRACTION_TERMS = 70  # of expn, for x above 1
FAR = 40.0  # from here on the asymptotic series of expi is accurate
EXPI_TERMS = 120  # of its power series, for x below that
ASYMPTOTIC_TERMS = 40
# The rational function of Cephes for the dilogarithm.
SPENCE_NUMERATOR = (
    *(4.65128586073990045278e-5, 7.31589045238094711071e-3, 1.33847639578309018650e-1),
    *(8.79691311754530315341e-1, 2.71149851196553469920e0, 4.25697156008121755724e0),
    *(3.29771340985225106936e0, 1.00000000000000000126e0),
)
SPENCE_DENOMINATOR = (
    *(6.90990488912553276999e-4, 2.54043763932544379113e-2, 2.82974860602568089943e-1),
    *(1.41172597751831069617e0, 3.63800533345137075418e0, 5.03278880143316990390e0),
    *(3.54771340985225096217e0, 9.99999999999999998740e-1),
)


def _of_no_order(n: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the derivative by an order, which is an integer."""
    return elementwise.multiply(n, 0.0)


def _lower(n: TracedArray, x: TracedArray) -> TracedArray:
    return -expn(n - 1, x)


@differentiable(_of_no_order, _lower)
def expn(n: Any, x: Any) -> TracedArray:
    """Returns the integral of exp(-x t) / t**n over t above 1, for integers n >= 0 and x >= 0."""
    is_near = x <= 1
    near, far = elementwise.where(is_near, x, 1.0), elementwise.where(is_near, 2.0, x)
    order = elementwise.where(n < 1, 1.0, n)
    value = elementwise.where(is_near, _series(order, near), _fraction(order, far))
    value = elementwise.where(n == 0, reals.exp(-x) / x, value)
    at_zero = elementwise.where(n < 2, math.inf, 1 / (elementwise.where(n == 1, 2.0, n) - 1))
    value = elementwise.where(x == 0, at_zero, value)
    is_undefined = (x < 0) | (n < 0) | elementwise.isnan(x) | elementwise.isnan(n)
    return elementwise.where(is_undefined, math.nan, value)


def _series(n: TracedArray, x: TracedArray) -> TracedArray:
    """Returns expn for 0 < x <= 1: its terms, that of n - 1 with a logarithm."""
    logarithm = digamma(n) - reals.log(elementwise.where(x == 0, 1.0, x))

    def step(k: Any, state: Any) -> Any:
        power, total = state
        index = elementwise.astype(k, "float64")
        is_singular = n - 1 == index
        divisor = elementwise.where(is_singular, 1.0, n - 1 - index)
        total = total + power * elementwise.where(is_singular, logarithm, 1 / divisor)
        return power * -x / (index + 1), total

    return fori_loop(0, SERIES_TERMS, step, (ones_like(x), zeros_like(x)))[1]


def _fraction(n: TracedArray, x: TracedArray) -> TracedArray:
    """Returns expn for x > 1 by its continued fraction, from the last term."""

    def step(k: Any, rest: Any) -> Any:
        index = elementwise.astype(FRACTION_TERMS - k, "float64")
        return index * (n - 1 + index) / (x + n + 2 * index - rest)

    rest = fori_loop(0, FRACTION_TERMS, step, zeros_like(x))
    return reals.exp(-x) / (x + n - rest)


@traced
def exp1(x: Any) -> TracedArray:
    """Returns the integral of exp(-t) / t over t above x, for x >= 0."""
    return expn(1, x)


@differentiable(lambda x: reals.exp(x) / x)
def expi(x: Any) -> TracedArray:
    """Returns the principal value of the integral of exp(t) / t over t below x."""
    is_far = x > FAR
    near = elementwise.where(is_far | ~(x > 0), 1.0, x)
    far = elementwise.where(is_far & (x < math.inf), x, FAR)

    def term(k: Any, state: Any) -> Any:
        index = elementwise.astype(k, "float64") + 1
        power = state[0] * near / index
        return power, state[1] + power / index

    def asymptotic(k: Any, total: Any) -> Any:
        return 1 + total * (ASYMPTOTIC_TERMS - elementwise.astype(k, "float64")) / far

    total = fori_loop(0, EXPI_TERMS, term, (ones_like(x), zeros_like(x)))[1]
    value = total + reals.log(near) + EULER
    tail = reals.exp(far) / far * fori_loop(0, ASYMPTOTIC_TERMS, asymptotic, ones_like(x))
    value = elementwise.where(is_far, tail, value)
    below = -expn(1, elementwise.where(x < 0, -x, 1.0))
    value = elementwise.where(x < 0, below, elementwise.where(x == 0, -math.inf, value))
    value = elementwise.where(x == math.inf, math.inf, value)
    return elementwise.where(elementwise.isnan(x), math.nan, value)


def _spence_derivative(x: TracedArray) -> TracedArray:
    is_one = x == 1
    return elementwise.where(is_one, -1.0, reals.log(x) / (1 - elementwise.where(is_one, 0.0, x)))


@differentiable(_spence_derivative)
def spence(x: Any) -> TracedArray:
    """Returns the integral of log(t) / (1 - t) from 1 to x >= 0: the dilogarithm of 1 - x."""
    is_large, is_zero = x > 2, x == 0
    safe = elementwise.where(is_zero, 1.0, x)
    y = elementwise.where(is_large, 1 / safe, safe)
    is_above, is_below = y > 1.5, y < 0.5
    w = elementwise.where(is_above, 1 / y - 1, elementwise.where(is_below, -y, y - 1))
    value = (0 - w) * _polynomial(w, SPENCE_NUMERATOR) / _polynomial(w, SPENCE_DENOMINATOR)
    rest = elementwise.where(is_below, y, 0.5)
    mirrored = math.pi**2 / 6 - reals.log(rest) * reals.log1p(-rest) - value
    value = elementwise.where(is_below, mirrored, value)
    logarithm = reals.log(elementwise.where(x > 0, safe, 1.0))
    inverted = -0.5 * logarithm * logarithm - value
    value = elementwise.where(is_above | is_large, inverted, value)
    value = elementwise.where(is_zero, math.pi**2 / 6, value)
    return elementwise.where(x < 0, math.nan, value)


def _polynomial(x: TracedArray, coefficients: tuple[float, ...]) -> TracedArray:
    result = full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result
