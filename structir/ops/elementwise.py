"""Element-wise ops of one operand."""

from __future__ import annotations

import math

from structir.opdef.attributes import DType, Number
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, f32
from structir.projections import scalar_expr
from structir.projections.scalar_expr import ScalarExpr

SAME = "x[*s] -> y[*s]"
FLOATING = "x[*s] @ F -> y[*s] @ F"
INTEGRAL = "x[*s] @ J -> y[*s] @ J"
TEST = "x[*s] -> y[*s] @ bool"


@op(SAME)
def abs_(x: ScalarExpr) -> ScalarExpr:
    """The absolute value of each element."""
    return scalar_expr.abs(x)


@op(SAME, operator="neg")
def negative(x: ScalarExpr) -> ScalarExpr:
    """Each element with its sign turned."""
    return -x


@op(SAME)
def square(x: ScalarExpr) -> ScalarExpr:
    """Each element times itself."""
    return x * x


@op(SAME)
def sign(x: ScalarExpr) -> ScalarExpr:
    """-1, 0 or 1 by the sign of each element."""
    return scalar_expr.sign(x)


@op(SAME)
def ceil(x: ScalarExpr) -> ScalarExpr:
    """The least whole number that is not below each element."""
    return scalar_expr.ceil(x)


@op(SAME)
def floor(x: ScalarExpr) -> ScalarExpr:
    """The greatest whole number that is not above each element."""
    return scalar_expr.floor(x)


@op(SAME)
def round_(x: ScalarExpr) -> ScalarExpr:
    """The nearest whole number; halves go to the even one."""
    return scalar_expr.round(x)


@op(SAME)
def trunc(x: ScalarExpr) -> ScalarExpr:
    """Each element without its fraction."""
    return scalar_expr.trunc(x)


@op(FLOATING)
def exp(x: ScalarExpr) -> ScalarExpr:
    """The exponential of each element."""
    return scalar_expr.exp(x)


@op(FLOATING)
def log(x: ScalarExpr) -> ScalarExpr:
    """The natural logarithm of each element."""
    return scalar_expr.log(x)


@op(FLOATING)
def sqrt(x: ScalarExpr) -> ScalarExpr:
    """The square root of each element."""
    return scalar_expr.sqrt(x)


@op(FLOATING)
def rsqrt(x: ScalarExpr) -> ScalarExpr:
    """One over the square root of each element."""
    return scalar_expr.rsqrt(x)


@op(FLOATING)
def sin(x: ScalarExpr) -> ScalarExpr:
    """The sine of each element."""
    return scalar_expr.sin(x)


@op(FLOATING)
def cos(x: ScalarExpr) -> ScalarExpr:
    """The cosine of each element."""
    return scalar_expr.cos(x)


@op(FLOATING)
def tan(x: ScalarExpr) -> ScalarExpr:
    """The tangent of each element."""
    return scalar_expr.tan(x)


@op(FLOATING)
def sinh(x: ScalarExpr) -> ScalarExpr:
    """The hyperbolic sine of each element."""
    return scalar_expr.sinh(x)


@op(FLOATING)
def cosh(x: ScalarExpr) -> ScalarExpr:
    """The hyperbolic cosine of each element."""
    return scalar_expr.cosh(x)


@op(FLOATING)
def tanh(x: ScalarExpr) -> ScalarExpr:
    """The hyperbolic tangent of each element."""
    return scalar_expr.tanh(x)


@op(FLOATING)
def asin(x: ScalarExpr) -> ScalarExpr:
    """The angle whose sine is each element."""
    return scalar_expr.asin(x)


@op(FLOATING)
def acos(x: ScalarExpr) -> ScalarExpr:
    """The angle whose cosine is each element."""
    return scalar_expr.acos(x)


@op(FLOATING)
def atan(x: ScalarExpr) -> ScalarExpr:
    """The angle whose tangent is each element."""
    return scalar_expr.atan(x)


@op(FLOATING)
def asinh(x: ScalarExpr) -> ScalarExpr:
    """The inverse hyperbolic sine of each element."""
    return scalar_expr.asinh(x)


@op(FLOATING)
def acosh(x: ScalarExpr) -> ScalarExpr:
    """The inverse hyperbolic cosine of each element."""
    return scalar_expr.acosh(x)


@op(FLOATING)
def atanh(x: ScalarExpr) -> ScalarExpr:
    """The inverse hyperbolic tangent of each element."""
    return scalar_expr.atanh(x)


@op(FLOATING)
def erf(x: ScalarExpr) -> ScalarExpr:
    """The error function of each element."""
    return scalar_expr.erf(x)


@op(FLOATING)
def sigmoid(x: ScalarExpr) -> ScalarExpr:
    """1 / (1 + exp(-x)) of each element."""
    return scalar_expr.sigmoid(x)


@op(TEST)
def isnan(x: ScalarExpr) -> ScalarExpr:
    """Whether each element is not a number."""
    return scalar_expr.isnan(x)


@op(TEST)
def isinf(x: ScalarExpr) -> ScalarExpr:
    """Whether each element is infinite."""
    return scalar_expr.isinf(x)


@op(TEST)
def isfinite(x: ScalarExpr) -> ScalarExpr:
    """Whether each element is a finite number."""
    return scalar_expr.isfinite(x)


@op(SAME)
def logical_not(x: ScalarExpr) -> ScalarExpr:
    """Whether each element is zero or false; the dtype is kept."""
    return scalar_expr.not_(x)


@op(INTEGRAL)
def bitwise_not(x: ScalarExpr) -> ScalarExpr:
    """Each element with all its bits turned."""
    return ~x


@op(SAME)
def clip(x: ScalarExpr, min: Number, max: Number) -> ScalarExpr:
    """Each element, no less than `min` and no more than `max`."""
    return scalar_expr.min(scalar_expr.max(x, min), max)


@op("x[*s] -> y[*s] @ dtype")
def astype(x: ScalarExpr, dtype: DType) -> ScalarExpr:
    """Each element converted to another dtype. Floats become integers towards 0; beyond the dtype
    its first or last number, and 0 for NaN. Integers keep their low bits."""
    return scalar_expr.cast(x, dtype)


@op("x[*s] -> y[*s] @ dtype")
def wrap_param(x: ScalarExpr, dtype: DType = "float32") -> ScalarExpr:
    """A parameter converted to the dtype that the program computes in."""
    return scalar_expr.cast(x, dtype)


exp.example(f32[3, 7])
clip.example(f32[2, 3], -0.25, 0.75)
astype.example(f32[2, 3], "int64")
astype.example(ExactValues("float32", (math.nan, math.inf, -math.inf, 3e9, -3e9, -1.75)), "int32")
astype.example(ExactValues("float32", (math.nan, math.inf, -0.5, 255.5, 300.0, -1.75)), "uint8")
acosh.example(ExactValues("float32", (1.25, 2.0, 7.5)))
