"""Functions of one operand in float64 that are no ops, as expressions of ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R

Emit = Callable[[Expr], Expr]  # binds an expression to a variable
WINITZKI = 0.147
NEWTON_STEPS = 3
NORMAL_TAIL = ((2.515517, 0.802853, 0.010328), (1.0, 1.432788, 0.189269, 0.001308))
SHIFT = 8  # the asymptotic series of the gamma function are accurate from here on
LOG_GAMMA_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
ZETA_TERMS = 24
ZETA_SERIES = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)


def _number(value: float, dtype: str) -> Expr:
    return Constant(np.asarray(value).astype(numpy_dtype(dtype)))


def _double(value: float) -> Expr:
    return _number(value, "float64")


def exp_minus_one(x: Expr, dtype: str, emit: Emit) -> Expr:
    """Returns exp(x) - 1 as 2 sinh(x / 2) exp(x / 2), which is accurate near 0."""
    half = emit(R.multiply(x, _number(0.5, dtype)))
    near = R.multiply(R.multiply(_number(2.0, dtype), R.exp(half)), R.sinh(half))
    far = R.subtract(R.exp(x), _number(1.0, dtype))
    result: Expr = R.where(R.less(R.abs(half), _number(0.5, dtype)), near, far)
    return result


def log_plus_one(x: Expr, dtype: str, emit: Emit) -> Expr:
    """Returns log(1 + x), near 0 as 2 atanh(x / (2 + x)), because 1 + x loses digits there."""
    x = emit(x)
    two = _number(2.0, dtype)
    near = R.multiply(two, R.atanh(R.divide(x, R.add(two, x))))
    far = R.log(R.add(_number(1.0, dtype), x))
    result: Expr = R.where(R.less(R.abs(x), _number(0.5, dtype)), near, far)
    return result


def inverse_error_function(x: Expr, emit: Emit) -> Expr:
    """Returns the inverse of erf: Winitzki's approximation, then Newton steps."""
    below_one = R.minimum(R.abs(x), _double(1 - 2.0**-53))
    inner = emit(R.multiply(below_one, R.sign(x)))
    logarithm = emit(R.log(R.subtract(_double(1.0), R.multiply(inner, inner))))
    half = _double(2 / (math.pi * WINITZKI))
    middle = emit(R.add(half, R.multiply(logarithm, _double(0.5))))
    ratio = R.multiply(logarithm, _double(1 / WINITZKI))
    root = R.sqrt(R.subtract(R.multiply(middle, middle), ratio))
    y = emit(R.multiply(R.sign(inner), R.sqrt(R.subtract(root, middle))))
    for _ in range(NEWTON_STEPS):
        slope = R.multiply(R.exp(R.multiply(y, y)), _double(math.sqrt(math.pi) / 2))
        y = emit(R.subtract(y, R.multiply(R.subtract(R.erf(y), inner), slope)))
    is_one = R.equal(R.abs(x), _double(1.0))
    finite = R.where(is_one, R.multiply(R.sign(x), _double(math.inf)), y)
    is_outside = R.logical_not(R.less_equal(R.abs(x), _double(1.0)))
    result: Expr = R.where(is_outside, _double(math.nan), finite)
    return result


def _series(emit: Emit, x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Returns a polynomial in 1 / x**2."""
    inverse = emit(R.divide(_double(1.0), R.multiply(x, x)))
    result: Expr = _double(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = R.add(R.multiply(result, inverse), _double(coefficient))
    return emit(result)


def _reflected(emit: Emit, x: Expr) -> tuple[Expr, Expr]:
    """Returns whether x < 0.5, and 1 - x there, x elsewhere."""
    is_reflected = emit(R.less(x, _double(0.5)))
    return is_reflected, emit(R.where(is_reflected, R.subtract(_double(1.0), x), x))


def log_gamma(x: Expr, emit: Emit) -> Expr:
    """Returns log |gamma(x)|: Stirling's series of z + 8, the recurrence, and the reflection."""
    is_reflected, z = _reflected(emit, x)
    is_small = emit(R.less(z, _double(SHIFT)))
    factors = emit(R.where(is_small, z, _double(1.0)))
    product = factors
    for k in range(1, SHIFT):
        product = R.multiply(product, R.add(factors, _double(k)))
    product = R.where(is_small, product, _double(1.0))
    y = emit(R.where(is_small, R.add(z, _double(SHIFT)), z))
    series = R.divide(_series(emit, y, LOG_GAMMA_SERIES), y)
    main = R.subtract(R.multiply(R.subtract(y, _double(0.5)), R.log(y)), y)
    stirling = R.add(R.add(main, _double(0.5 * math.log(2 * math.pi))), series)
    value = emit(R.subtract(stirling, R.log(product)))
    turns = R.subtract(x, R.round(x))
    sine = R.abs(R.sin(R.multiply(turns, _double(math.pi))))
    other = R.subtract(R.subtract(_double(math.log(math.pi)), R.log(sine)), value)
    finite = R.where(is_reflected, other, value)
    result: Expr = R.where(R.isinf(x), _double(math.inf), finite)
    return result


def digamma(x: Expr, emit: Emit) -> Expr:
    """Returns the derivative of log gamma: the series of z + 8, the recurrence, the reflection."""
    is_reflected, z = _reflected(emit, x)
    y = emit(R.add(z, _double(SHIFT)))
    inverse = emit(R.divide(_double(1.0), y))
    series = R.multiply(R.multiply(inverse, inverse), _series(emit, y, DIGAMMA_SERIES))
    value = R.add(R.subtract(R.log(y), R.multiply(inverse, _double(0.5))), series)
    for k in range(SHIFT):
        value = R.subtract(value, R.divide(_double(1.0), R.add(z, _double(k))))
    value = emit(value)
    turns = R.subtract(x, R.round(x))
    tangent = R.tan(R.multiply(turns, _double(math.pi)))
    other = R.subtract(value, R.divide(_double(math.pi), tangent))
    is_pole = R.logical_and(R.less(x, _double(0.0)), R.equal(x, R.floor(x)))
    result: Expr = R.where(is_pole, _double(math.nan), R.where(is_reflected, other, value))
    return result


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


def polygamma(order: int, x: Expr, emit: Emit) -> Expr:
    """Returns a derivative of digamma, by the zeta function of Hurwitz."""
    if not order:
        return digamma(x, emit)
    zeta = hurwitz_zeta(_double(order + 1), x, emit)
    sign = 1.0 if order % 2 else -1.0
    result: Expr = R.multiply(zeta, _double(sign * math.factorial(order)))
    return result


def inverse_normal_distribution(p: Expr, emit: Emit) -> Expr:
    """Returns the inverse of the normal distribution function: a rational approximation of the
    lower tail, then Halley steps. Source: Abramowitz and Stegun, 26.2.23."""
    one, half = _double(1.0), _double(0.5)
    tail = emit(R.minimum(p, R.subtract(one, p)))
    is_inner = emit(R.logical_and(R.greater(tail, _double(0.0)), R.less_equal(tail, half)))
    tail = emit(R.where(is_inner, tail, half))
    t = emit(R.sqrt(R.multiply(_double(-2.0), R.log(tail))))
    over, under = (_polynomial(t, coefficients) for coefficients in NORMAL_TAIL)
    x = emit(R.subtract(R.divide(over, under), t))
    for _ in range(NEWTON_STEPS):
        mass = R.multiply(half, R.erfc(R.multiply(x, _double(-math.sqrt(0.5)))))
        density = R.exp(R.multiply(R.multiply(x, x), _double(-0.5)))
        ratio = R.divide(R.subtract(mass, tail), density)
        step = emit(R.multiply(ratio, _double(math.sqrt(2 * math.pi))))
        slope = R.add(one, R.multiply(half, R.multiply(x, step)))
        x = emit(R.subtract(x, R.divide(step, slope)))
    is_upper = emit(R.greater(p, half))
    value = R.where(is_inner, R.where(is_upper, R.negative(x), x), _double(math.nan))
    value = R.where(R.equal(p, _double(0.0)), _double(-math.inf), value)
    return emit(R.where(R.equal(p, one), _double(math.inf), value))


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    result: Expr = _double(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = R.add(R.multiply(result, x), _double(coefficient))
    return result


def next_after(x: Expr, y: Expr, sizes: ShapeExpr, dtype: str, emit: Emit) -> Expr:
    """Returns the float next to `x` in the direction of `y`, of tensors of equal shape."""
    code = f"int{8 * numpy_dtype(dtype).itemsize}"
    bits = emit(R.memory.view(x, shape=sizes, dtype=code))
    zero, one = _number(0, dtype), _number(1, code)
    is_outward = R.equal(R.greater(y, x), R.greater(x, zero))
    moved = emit(R.where(is_outward, R.add(bits, one), R.subtract(bits, one)))
    neighbour = R.memory.view(moved, shape=sizes, dtype=dtype)
    least = _number(np.nextafter(numpy_dtype(dtype).type(0), numpy_dtype(dtype).type(1)), dtype)
    from_zero = R.where(R.greater(y, zero), least, R.negative(least))
    result = R.where(R.equal(x, zero), from_zero, emit(neighbour))
    result = R.where(R.equal(x, y), y, result)
    is_undefined = R.logical_or(R.isnan(x), R.isnan(y))
    return emit(R.where(is_undefined, _number(math.nan, dtype), result))
