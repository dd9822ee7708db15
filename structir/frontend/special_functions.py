"""Functions that are no ops, as expressions of ops; those of one operand in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from structir.frontend.chebyshev import LARGE_I0, LARGE_I1, SCALED_ERFC, SMALL_I0, SMALL_I1
from structir.frontend.scalars import number
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

Emit = Callable[[Expr], Expr]  # binds an expression to a variable
SHIFT = 8  # the asymptotic series of trigamma is accurate from here on
ZETA_TERMS = 24
ZETA_SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
# (trigamma(y) - 1/y - 1/(2 * y**2)) * y**3 in 1 / y**2, y >= 8
TRIGAMMA_SERIES = (
    0.16666666666666655,
    -0.03333333333249287,
    0.023809522943893217,
    -0.03333299706371194,
    0.07569481310235808,
    -0.24699740954161503,
    0.8586880107331692,
)


def _double(value: float) -> Expr:
    return number(value, "float64")


def hypotenuse(x: Expr, y: Expr, dtype: str, emit: Emit) -> Expr:
    """Returns sqrt(x**2 + y**2), whose squares may overflow or underflow."""
    magnitudes = emit(R.abs(x)), emit(R.abs(y))
    largest, least = emit(R.maximum(*magnitudes)), emit(R.minimum(*magnitudes))
    infinity, one = number(math.inf, dtype), number(1.0, dtype)
    is_regular = R.logical_and(R.greater(largest, number(0.0, dtype)), R.less(largest, infinity))
    quotient = emit(R.divide(least, R.where(is_regular, largest, one)))
    result = R.multiply(largest, R.sqrt(R.add(R.multiply(quotient, quotient), one)))
    is_infinite = [R.equal(magnitude, infinity) for magnitude in magnitudes]  # even beside NaN
    return emit(R.where(R.logical_or(*is_infinite), infinity, result))


def is_negative(x: Expr, dtype: str, emit: Emit) -> Expr:
    """Returns whether the sign of a float is negative, also of -0.0; false for NaN."""
    zero = number(0.0, dtype)
    reciprocal = R.divide(number(1.0, dtype), x)
    return emit(R.less(R.where(R.equal(x, zero), reciprocal, x), zero))


def running_log_sum_exp(x: Expr, axis: int, dtype: str, emit: Emit) -> Expr:
    """Returns the logarithms of prefix sums of exponentials along an axis.

    Each sum is scaled by its own largest element: no element of a prefix is far below it.
    """
    zero, one, none = [number(value, dtype) for value in (0.0, 1.0, -math.inf)]
    largest = emit(emit(R.cummax(x, axis=axis))[0])
    is_finite = emit(R.isfinite(largest))
    scale = emit(R.where(is_finite, largest, zero))
    # `linear_recurrence` reads no earlier sum at the first element, where `roll` reads the last
    before = emit(R.roll(R.where(is_finite, largest, none), 1, axis=axis))
    factor = emit(R.exp(R.minimum(R.subtract(before, scale), zero)))
    term = emit(R.exp(R.where(is_finite, R.subtract(x, scale), none)))
    total = R.add(R.multiply(factor, R.linear_recurrence(factor, term, axis=axis)), term)
    result = R.add(R.log(R.where(is_finite, total, one)), scale)
    return emit(R.where(is_finite, result, largest))


def hurwitz_zeta(x: Expr, q: Expr, emit: Emit) -> Expr:
    """Returns the sum of (q + k)**-x over k >= 0: its first terms, and the Euler-Maclaurin series.

    As Cephes, it is infinite for x = 1 and for integers q <= 0, and NaN for x < 1, and for q < 0
    unless x is an integer. The first terms reach 10 for q > -`ZETA_TERMS` + 10.
    """
    x, q = emit(x), emit(q)
    exponent = emit(R.negative(x))
    total: Expr = R.power(q, exponent)
    for k in range(1, ZETA_TERMS):
        total = R.add(total, R.power(R.add(q, _double(k)), exponent))
    end = emit(R.add(q, _double(ZETA_TERMS)))
    power = emit(R.power(end, exponent))
    integral = R.divide(R.multiply(power, end), R.subtract(x, _double(1.0)))
    total = R.add(R.add(total, integral), R.multiply(power, _double(0.5)))
    factor = emit(R.divide(R.multiply(x, power), end))
    squared = emit(R.multiply(end, end))
    for k, coefficient in enumerate(ZETA_SERIES):
        total = R.add(total, R.multiply(factor, _double(coefficient)))
        first, second = (R.add(x, _double(2 * k + step)) for step in (1, 2))
        factor = emit(R.divide(R.multiply(R.multiply(factor, first), second), squared))
    one, zero = _double(1.0), _double(0.0)
    is_whole = R.equal(x, R.floor(x))
    is_negative = emit(R.less_equal(q, zero))
    is_pole = R.logical_and(is_negative, R.equal(q, R.floor(q)))
    is_infinite = R.logical_or(R.equal(x, one), is_pole)
    is_undefined = R.logical_and(is_negative, R.logical_not(R.logical_or(is_pole, is_whole)))
    is_undefined = R.logical_or(is_undefined, R.less(x, one))
    result = R.where(is_infinite, _double(math.inf), total)
    result = R.where(is_undefined, _double(math.nan), result)
    return emit(result)


def trigamma(x: Expr, emit: Emit) -> Expr:
    """Returns the second derivative of log gamma: the series of z + 8, the recurrence, and the
    reflection below 1/2."""
    one = _double(1.0)
    is_reflected = emit(R.less(x, _double(0.5)))
    z = emit(R.where(is_reflected, R.subtract(one, x), x))
    inverse = emit(R.divide(one, R.add(z, _double(SHIFT))))
    square = emit(R.multiply(inverse, inverse))
    series = R.multiply(R.multiply(square, inverse), _polynomial(square, TRIGAMMA_SERIES))
    value = R.add(R.add(inverse, R.multiply(square, _double(0.5))), series)
    for k in range(0, SHIFT, 2):  # two reciprocals of squares have one quotient
        a, b = (emit(R.square(R.add(z, _double(n)))) for n in (k, k + 1))
        value = R.add(value, R.divide(R.add(a, b), R.multiply(a, b)))
    value = emit(value)
    sine = emit(R.sin(R.multiply(R.subtract(x, R.round(x)), _double(math.pi))))
    other = R.subtract(R.divide(_double(math.pi**2), R.multiply(sine, sine)), value)
    return R.where(is_reflected, other, value)


def polygamma(order: int, x: Expr, emit: Emit) -> Expr:
    """Returns a derivative of digamma: in closed form, or by the zeta function of Hurwitz."""
    if order < 2:
        return trigamma(x, emit) if order else R.digamma(x)
    zeta = hurwitz_zeta(_double(order + 1), x, emit)
    sign = 1.0 if order % 2 else -1.0
    return R.multiply(zeta, _double(sign * math.factorial(order)))


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    result: Expr = _double(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = R.add(R.multiply(result, x), _double(coefficient))
    return result


def next_after(x: Expr, y: Expr, sizes: ShapeExpr, dtype: str, emit: Emit) -> Expr:
    """Returns the float next to `x` in the direction of `y`, of tensors of equal shape."""
    code = f"int{8 * numpy_dtype(dtype).itemsize}"
    bits = emit(R.memory.view(x, shape=sizes, dtype=code))
    zero, one = number(0, dtype), number(1, code)
    is_outward = R.equal(R.greater(y, x), R.greater(x, zero))
    moved = emit(R.where(is_outward, R.add(bits, one), R.subtract(bits, one)))
    neighbour = R.memory.view(moved, shape=sizes, dtype=dtype)
    least = number(np.nextafter(numpy_dtype(dtype).type(0), numpy_dtype(dtype).type(1)), dtype)
    from_zero = R.where(R.greater(y, zero), least, R.negative(least))
    result = R.where(R.equal(x, zero), from_zero, emit(neighbour))
    result = R.where(R.equal(x, y), y, result)
    is_undefined = R.logical_or(R.isnan(x), R.isnan(y))
    return emit(R.where(is_undefined, number(math.nan, dtype), result))


def chebyshev_series(u: Expr, coefficients: Sequence[float], emit: Emit) -> Expr:
    """Returns a Chebyshev series for -1 <= u <= 1 by Clenshaw's recurrence."""
    twice = emit(R.multiply(u, _double(2.0)))
    first: Expr = _double(0.0)
    second: Expr = _double(0.0)
    for coefficient in coefficients[:0:-1]:
        product = R.subtract(R.multiply(twice, first), second)
        first, second = emit(R.add(product, _double(coefficient))), first
    result = R.subtract(R.multiply(u, first), second)
    return emit(R.add(result, _double(coefficients[0])))


def scaled_erfc(x: Expr, emit: Emit) -> Expr:
    """Returns exp(x**2) * erfc(x) of a float64 tensor x >= 0."""
    three = _double(3.0)
    t = emit(R.divide(three, R.add(three, x)))
    u = emit(R.subtract(R.multiply(t, _double(2.0)), _double(1.0)))
    return emit(R.multiply(t, chebyshev_series(u, SCALED_ERFC, emit)))


def bessel_i(x: Expr, order: int, is_scaled: bool, emit: Emit) -> Expr:
    """Returns the modified Bessel function of order 0 or 1 of a float64 tensor, times exp(-|x|) if
    scaled."""
    small_series, large_series = [(SMALL_I0, LARGE_I0), (SMALL_I1, LARGE_I1)][order]
    distance = emit(R.abs(x))
    near = emit(R.minimum(distance, _double(8.0)))
    far = emit(R.maximum(distance, _double(8.0)))
    one = _double(1.0)
    u = emit(R.subtract(R.multiply(near, _double(0.25)), one))
    small = chebyshev_series(u, small_series, emit)
    v = emit(R.subtract(R.divide(_double(16.0), far), one))
    large = R.divide(chebyshev_series(v, large_series, emit), R.sqrt(far))
    small = R.multiply(small, near) if order else small
    result = R.where(R.less(distance, _double(8.0)), small, large)
    result = R.multiply(result, R.sign(x)) if order else result
    return emit(result if is_scaled else R.multiply(result, R.exp(distance)))
