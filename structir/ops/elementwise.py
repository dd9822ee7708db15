"""Element-wise ops of one operand."""

from __future__ import annotations

import math

from structir.ops.attributes import DType, Number
from structir.ops.define import op
from structir.ops.examples import Values, f32
from structir.projections import point
from structir.projections.point import Point

SAME = "x[*s] -> y[*s]"
FLOATING = "x[*s] @ F -> y[*s] @ F"
INTEGRAL = "x[*s] @ J -> y[*s] @ J"
TEST = "x[*s] -> y[*s] @ bool"


@op(SAME)
def abs_(x: Point) -> Point:
    """The absolute value of each element."""
    return point.abs(x)


@op(SAME, operator="neg")
def negative(x: Point) -> Point:
    """Each element with its sign turned."""
    return -x


@op(SAME)
def square(x: Point) -> Point:
    """Each element times itself."""
    return x * x


@op(SAME)
def sign(x: Point) -> Point:
    """-1, 0 or 1 by the sign of each element."""
    return point.sign(x)


@op(SAME)
def ceil(x: Point) -> Point:
    """The least whole number that is not below each element."""
    return point.ceil(x)


@op(SAME)
def floor(x: Point) -> Point:
    """The greatest whole number that is not above each element."""
    return point.floor(x)


@op(SAME)
def round_(x: Point) -> Point:
    """The nearest whole number; halves go to the even one."""
    return point.round(x)


@op(SAME)
def trunc(x: Point) -> Point:
    """Each element without its fraction."""
    return point.trunc(x)


@op(FLOATING)
def exp(x: Point) -> Point:
    """The exponential of each element."""
    return point.exp(x)


@op(FLOATING)
def log(x: Point) -> Point:
    """The natural logarithm of each element."""
    return point.log(x)


@op(FLOATING)
def sqrt(x: Point) -> Point:
    """The square root of each element."""
    return point.sqrt(x)


@op(FLOATING)
def rsqrt(x: Point) -> Point:
    """One over the square root of each element."""
    return point.rsqrt(x)


@op(FLOATING)
def sin(x: Point) -> Point:
    """The sine of each element."""
    return point.sin(x)


@op(FLOATING)
def cos(x: Point) -> Point:
    """The cosine of each element."""
    return point.cos(x)


@op(FLOATING)
def tan(x: Point) -> Point:
    """The tangent of each element."""
    return point.tan(x)


@op(FLOATING)
def sinh(x: Point) -> Point:
    """The hyperbolic sine of each element."""
    return point.sinh(x)


@op(FLOATING)
def cosh(x: Point) -> Point:
    """The hyperbolic cosine of each element."""
    return point.cosh(x)


@op(FLOATING)
def tanh(x: Point) -> Point:
    """The hyperbolic tangent of each element."""
    return point.tanh(x)


@op(FLOATING)
def asin(x: Point) -> Point:
    """The angle whose sine is each element."""
    return point.asin(x)


@op(FLOATING)
def acos(x: Point) -> Point:
    """The angle whose cosine is each element."""
    return point.acos(x)


@op(FLOATING)
def atan(x: Point) -> Point:
    """The angle whose tangent is each element."""
    return point.atan(x)


@op(FLOATING)
def asinh(x: Point) -> Point:
    """The inverse hyperbolic sine of each element."""
    return point.asinh(x)


@op(FLOATING)
def acosh(x: Point) -> Point:
    """The inverse hyperbolic cosine of each element."""
    return point.acosh(x)


@op(FLOATING)
def atanh(x: Point) -> Point:
    """The inverse hyperbolic tangent of each element."""
    return point.atanh(x)


@op(FLOATING)
def erf(x: Point) -> Point:
    """The error function of each element."""
    return point.erf(x)


@op(FLOATING)
def sigmoid(x: Point) -> Point:
    """1 / (1 + exp(-x)) of each element."""
    return point.sigmoid(x)


@op(TEST)
def isnan(x: Point) -> Point:
    """Whether each element is not a number."""
    return point.isnan(x)


@op(TEST)
def isinf(x: Point) -> Point:
    """Whether each element is infinite."""
    return point.isinf(x)


@op(TEST)
def isfinite(x: Point) -> Point:
    """Whether each element is a finite number."""
    return point.isfinite(x)


@op(SAME)
def logical_not(x: Point) -> Point:
    """Whether each element is zero or false; the dtype is kept."""
    return point.not_(x)


@op(INTEGRAL)
def bitwise_not(x: Point) -> Point:
    """Each element with all its bits turned."""
    return ~x


@op(SAME)
def clip(x: Point, min: Number, max: Number) -> Point:
    """Each element, no less than `min` and no more than `max`."""
    return point.min(point.max(x, min), max)


@op("x[*s] -> y[*s] @ dtype")
def astype(x: Point, dtype: DType) -> Point:
    """Each element converted to another dtype. Floats become integers towards 0; beyond the dtype
    its first or last number, and 0 for NaN. Integers keep their low bits."""
    return point.cast(x, dtype)


@op("x[*s] -> y[*s] @ dtype")
def wrap_param(x: Point, dtype: DType = "float32") -> Point:
    """A parameter converted to the dtype that the program computes in."""
    return point.cast(x, dtype)


exp.example(f32[3, 7])
clip.example(f32[2, 3], -0.25, 0.75)
astype.example(f32[2, 3], "int64")
astype.example(Values("float32", (math.nan, math.inf, -math.inf, 3e9, -3e9, -1.75)), "int32")
astype.example(Values("float32", (math.nan, math.inf, -0.5, 255.5, 300.0, -1.75)), "uint8")
acosh.example(Values("float32", (1.25, 2.0, 7.5)))
