"""Special functions of the gamma function: factorials, the beta function, and their ratios."""

from __future__ import annotations

import math
from typing import Any

import structir.frontend.special_functions as functions
import structir.lax.primitives as primitives
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.numpy import elementwise, reals, shaping
from structir.tracing.array import TracedArray, cast, emit, expression, operand
from structir.tracing.context import session, traced

np = lazy_module("numpy")


@traced
def gammasgn(x: Any) -> TracedArray:
    """Returns the sign of the gamma function; NaN at negative integers, and that of x at 0."""
    array = elementwise.real(x)
    whole = reals.floor(array)
    is_odd = elementwise.remainder(whole, 2) != 0
    below = elementwise.where(array == whole, math.nan, elementwise.where(is_odd, -1, 1))
    at_zero = elementwise.where(elementwise.divide(1, array) < 0, -1, 1)
    result = elementwise.where(array < 0, below, elementwise.where(array == 0, at_zero, 1))
    return cast(elementwise.where(elementwise.isnan(array), array, result), array.dtype_name)


@traced
def gamma(x: Any) -> TracedArray:
    """Returns the gamma function; NaN at negative integers."""
    array = elementwise.real(x)
    return gammasgn(array) * reals.exp(primitives.lgamma(array))


@traced
def factorial(n: Any, exact: bool = False) -> TracedArray:
    """Returns gamma(n + 1), and 0 for negative n. Raises DiagnosticError for `exact`."""
    if exact:
        message = "factorial: exact: factorials are floats"
        raise DiagnosticError(Diagnostic(message, hint="remove `exact=True`", code="E1107"))
    array = elementwise.real(n)
    return elementwise.where(array < 0, 0, reals.exp(primitives.lgamma(array + 1)))


@traced
def loggamma(x: Any) -> TracedArray:
    """Returns the logarithm of the gamma function, and NaN where x is not positive."""
    array = elementwise.real(x)
    return elementwise.where(array > 0, primitives.lgamma(array), math.nan)


@traced
def comb(N: Any, k: Any, *, repetition: bool = False) -> TracedArray:
    """Returns the number of choices of k among N elements, with repetitions or without; 0 for
    negative numbers."""
    (total, chosen), _ = elementwise.real_operands(N, k)
    if repetition:
        result = comb(total + chosen - 1, chosen)
        return elementwise.where((chosen == 0) & (total >= 0), 1.0, result)
    is_possible = (chosen <= total) & (total >= 0) & (chosen >= 0)
    n, m = (elementwise.where(is_possible, v, 0.0) for v in (total, chosen))
    lgamma = primitives.lgamma
    result = reals.exp(lgamma(n + 1) - lgamma(m + 1) - lgamma(n + 1 - m))
    return elementwise.where(is_possible, result, 0.0)


@traced
def poch(z: Any, m: Any) -> TracedArray:
    """Returns gamma(z + m) / gamma(z)."""
    (first, second), _ = elementwise.real_operands(z, m)
    return elementwise.where(second == 0, 1.0, gamma(first + second) / gamma(first))


@traced
def bernoulli(n: int) -> TracedArray:
    """Returns the Bernoulli numbers B_0 to B_n, with B_1 = -1/2. Raises DiagnosticError for n < 0.

    Source: Chowla and Hartung, "An exact formula for the m-th Bernoulli number", 1972.
    """
    if not isinstance(n, int) or n < 0:
        message = f"bernoulli: n: expected an int of at least 0, found {n!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    numbers = np.zeros(n + 1)
    numbers[:3] = [1, -1 / 2, 1 / 6][: n + 1]
    orders = np.arange(4, n + 1, 2, dtype="float64")
    first = np.cumprod(-(orders - 1) * orders / 4 / np.pi**2) / np.pi**2
    rest = (np.arange(2.0, 50.0)[:, None] ** -orders).sum(0)
    numbers[4::2] = first * (1 + rest)
    return cast(operand(numbers), "float32")


@traced
def betaln(a: Any, b: Any) -> TracedArray:
    """Returns the logarithm of the absolute value of the beta function."""
    (first, second), _ = elementwise.real_operands(a, b)
    return primitives.lgamma(first) + primitives.lgamma(second) - primitives.lgamma(first + second)


@traced
def beta(a: Any, b: Any) -> TracedArray:
    """Returns gamma(a) * gamma(b) / gamma(a + b)."""
    (first, second), _ = elementwise.real_operands(a, b)
    sign = gammasgn(first) * gammasgn(second) * gammasgn(first + second)
    return sign * reals.exp(betaln(first, second))


@traced
def multigammaln(a: Any, d: int) -> TracedArray:
    """Returns the logarithm of the gamma function of d-dimensional matrices."""
    array = elementwise.real(a)
    terms: Any = sum([primitives.lgamma(array - k / 2) for k in range(d)])
    return cast(terms + d * (d - 1) / 4 * math.log(math.pi), array.dtype_name)


@traced
def polygamma(n: int, x: Any) -> TracedArray:
    """Returns the derivative of digamma of a known order. Raises DiagnosticError for others."""
    if not isinstance(n, int) or n < 0:
        message = f"polygamma: n: expected an int of at least 0, found {n!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    return _in_double(lambda x: functions.polygamma(n, x, session().builder.emit), x)


@traced
def zeta(x: Any, q: Any) -> TracedArray:
    """Returns the sum of (q + k)**-x over k >= 0."""
    return _in_double(lambda x, q: functions.hurwitz_zeta(x, q, session().builder.emit), x, q)


def _in_double(function: Any, *values: Any) -> TracedArray:
    """Returns a function of expressions of equal shape, computed in float64."""
    operands, _ = elementwise.real_operands(*values)
    arrays = shaping.broadcast_arrays(*[cast(x, "float64") for x in operands])
    result: Expr = function(*[expression(array) for array in arrays])
    return cast(emit(result), operands[0].dtype_name)
