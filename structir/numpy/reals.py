"""Functions of floats: exponentials, logarithms, trigonometry and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.ir.expr import Expr
from structir.numpy.elementwise import (
    abs,
    add,
    apply,
    described,
    divide,
    equal,
    floor_divide,
    greater,
    isfinite,
    isnan,
    less,
    logical_and,
    logical_or,
    maximum,
    minimum,
    multiply,
    power,
    real,
    real_operands,
    remainder,
    subtract,
    where,
)
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.context import traced

BuildOp = Callable[..., Expr]


def _real(op: BuildOp, x: Any) -> TracedArray:
    (array,), weak = real_operands(x)
    return apply(op, array, weak=weak)


def _function_of_reals(name: str, op: BuildOp, text: str) -> Callable[[Any], TracedArray]:
    def function(x: Any, /) -> TracedArray:
        return _real(op, x)

    return traced(described(function, name, f"Returns {text}; integers become float32."))


exp = _function_of_reals("exp", R.exp, "e to the power of x")
log = _function_of_reals("log", R.log, "the natural logarithm")
sqrt = _function_of_reals("sqrt", R.sqrt, "the square root")
cbrt = _function_of_reals("cbrt", R.cbrt, "the cube root")
rsqrt = _function_of_reals("rsqrt", R.rsqrt, "1 / sqrt(x)")
sin = _function_of_reals("sin", R.sin, "the sine of radians")
cos = _function_of_reals("cos", R.cos, "the cosine of radians")
tan = _function_of_reals("tan", R.tan, "the tangent of radians")
arcsin = _function_of_reals("arcsin", R.asin, "the inverse sine")
arccos = _function_of_reals("arccos", R.acos, "the inverse cosine")
arctan = _function_of_reals("arctan", R.atan, "the inverse tangent")
sinh = _function_of_reals("sinh", R.sinh, "the hyperbolic sine")
cosh = _function_of_reals("cosh", R.cosh, "the hyperbolic cosine")
tanh = _function_of_reals("tanh", R.tanh, "the hyperbolic tangent")
arcsinh = _function_of_reals("arcsinh", R.asinh, "the inverse hyperbolic sine")
arccosh = _function_of_reals("arccosh", R.acosh, "the inverse hyperbolic cosine")
arctanh = _function_of_reals("arctanh", R.atanh, "the inverse hyperbolic tangent")
erf = _function_of_reals("erf", R.erf, "the error function")
sigmoid = _function_of_reals("sigmoid", R.sigmoid, "1 / (1 + exp(-x))")
asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh


def _rounding(name: str, op: BuildOp, text: str) -> Callable[[Any], TracedArray]:
    def function(x: Any, /) -> TracedArray:
        array = operand(x)
        is_float = dtypes.category(array.dtype_name) == dtypes.FLOAT
        return _real(op, x) if is_float else array

    return traced(described(function, name, f"Returns {text}; integers and bools are unchanged."))


floor = _rounding("floor", R.floor, "the largest integer not above x")
ceil = _rounding("ceil", R.ceil, "the smallest integer not below x")
trunc = fix = _rounding("trunc", R.trunc, "x rounded towards 0")


@traced
def fabs(x: Any, /) -> TracedArray:
    """Returns |x|; integers become float32."""
    return abs(real(x))


@traced
def float_power(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 to the power of x2; integers become float32."""
    operands, _ = real_operands(x1, x2)
    return power(*operands)


@traced
def square(x: Any, /) -> TracedArray:
    """Returns x * x."""
    array = operand(x)
    if array.dtype_name == "bool":
        array = cast(array, "int32")
    return apply(R.square, array, weak=array.weak)


@traced
def reciprocal(x: Any, /) -> TracedArray:
    """Returns 1 / x."""
    return divide(1, x)


@traced
def exp2(x: Any, /) -> TracedArray:
    """Returns 2 to the power of x."""
    return apply(R.exp2, real(x))


@traced
def expm1(x: Any, /) -> TracedArray:
    """Returns exp(x) - 1, accurate near 0."""
    return apply(R.expm1, real(x))


@traced
def log1p(x: Any, /) -> TracedArray:
    """Returns log(1 + x), accurate near 0."""
    return apply(R.log1p, real(x))


@traced
def log2(x: Any, /) -> TracedArray:
    """Returns the logarithm to base 2."""
    return divide(log(x), math.log(2))


@traced
def log10(x: Any, /) -> TracedArray:
    """Returns the logarithm to base 10."""
    return divide(log(x), math.log(10))


@traced
def logaddexp(x1: Any, x2: Any, /) -> TracedArray:
    """Returns log(exp(x1) + exp(x2))."""
    (x, y), weak = real_operands(x1, x2)
    return apply(R.log_add_exp, x, y, weak=weak)


@traced
def hypot(x1: Any, x2: Any, /) -> TracedArray:
    """Returns sqrt(x1**2 + x2**2)."""
    (x, y), _ = real_operands(x1, x2)
    largest, least = maximum(abs(x), abs(y)), minimum(abs(x), abs(y))
    quotient = divide(least, where((largest > 0) & isfinite(largest), largest, 1))
    result = multiply(largest, sqrt(add(square(quotient), 1)))
    return where(equal(abs(x), math.inf) | equal(abs(y), math.inf), math.inf, result)


@traced
def arctan2(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the angle of the point (x2, x1), in radians."""
    (y, x), weak = real_operands(x1, x2)
    return apply(R.atan2, y, x, weak=weak)


atan2 = arctan2


@traced
def round(x: Any, decimals: int = 0) -> TracedArray:
    """Returns x rounded to a number of decimals; ties go to the even digit."""
    array = operand(x)
    if dtypes.category(array.dtype_name) != dtypes.FLOAT:
        return array if decimals >= 0 else _rounded_integer(array, 10**-decimals)
    if not decimals:
        return apply(R.round, array, weak=array.weak)
    factor = 10.0**decimals
    return divide(apply(R.round, multiply(array, factor)), factor)


around = round


def _rounded_integer(x: TracedArray, unit: int) -> TracedArray:
    """Returns the nearest multiples of a unit; ties go to the even multiple."""
    quotient = floor_divide(x, unit)
    rest = subtract(multiply(subtract(x, multiply(quotient, unit)), 2), unit)
    is_odd = equal(remainder(quotient, 2), 1)
    goes_up = logical_or(greater(rest, 0), logical_and(equal(rest, 0), is_odd))
    return multiply(where(goes_up, add(quotient, 1), quotient), unit)


@traced
def rint(x: Any, /) -> TracedArray:
    """Returns x rounded to integers; ties go to the even one. Integers become float32."""
    return round(real(x))


@traced
def deg2rad(x: Any, /) -> TracedArray:
    """Converts degrees to radians."""
    return multiply(x, math.pi / 180)


@traced
def rad2deg(x: Any, /) -> TracedArray:
    """Converts radians to degrees."""
    return multiply(x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg


@traced
def sinc(x: Any, /) -> TracedArray:
    """Returns sin(pi x) / (pi x), and 1 at 0."""
    scaled = multiply(real(x), math.pi)
    safe = where(equal(scaled, 0), 1, scaled)
    return where(equal(scaled, 0), 1, divide(sin(safe), safe))


@traced
def heaviside(x1: Any, x2: Any, /) -> TracedArray:
    """Returns 0 below 0, x2 at 0, and 1 above 0."""
    (x, middle), _ = real_operands(x1, x2)
    return where(less(x, 0), 0, where(equal(x, 0), middle, where(isnan(x), x, 1)))


@traced
def conj(x: Any, /) -> TracedArray:
    """Returns x: elements are real."""
    return operand(x)


@traced
def copy(x: Any, /) -> TracedArray:
    """Returns x: arrays are immutable."""
    return operand(x)
