"""Elementwise ops of one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

from structir.ir.dtype import int_limits, is_int
from structir.ir.expr import Call, Expr
from structir.opdef.attributes import DType, Number
from structir.opdef.call_view import CallView, ResolvedSignature
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
    """Computes the absolute value."""
    return scalar_expr.abs(x)


@op(SAME, operator="neg")
def negative(x: ScalarExpr) -> ScalarExpr:
    """Computes -x."""
    return -x


@op(SAME)
def square(x: ScalarExpr) -> ScalarExpr:
    """Computes x * x."""
    return x * x


@op(SAME)
def sign(x: ScalarExpr) -> ScalarExpr:
    """Computes the sign: -1, 0 or 1."""
    return scalar_expr.sign(x)


@op(SAME)
def ceil(x: ScalarExpr) -> ScalarExpr:
    """Rounds up to an integer."""
    return scalar_expr.ceil(x)


@op(SAME)
def floor(x: ScalarExpr) -> ScalarExpr:
    """Rounds down to an integer."""
    return scalar_expr.floor(x)


@op(SAME)
def round_(x: ScalarExpr) -> ScalarExpr:
    """Rounds to the nearest integer, halves to even."""
    return scalar_expr.round(x)


@op(SAME)
def trunc(x: ScalarExpr) -> ScalarExpr:
    """Rounds toward zero."""
    return scalar_expr.trunc(x)


@op(FLOATING)
def exp(x: ScalarExpr) -> ScalarExpr:
    """Computes the exponential."""
    return scalar_expr.exp(x)


@op(FLOATING)
def log(x: ScalarExpr) -> ScalarExpr:
    """Computes the natural logarithm."""
    return scalar_expr.log(x)


@op(FLOATING)
def sqrt(x: ScalarExpr) -> ScalarExpr:
    """Computes the square root."""
    return scalar_expr.sqrt(x)


@op(FLOATING)
def rsqrt(x: ScalarExpr) -> ScalarExpr:
    """Computes 1 / sqrt(x)."""
    return scalar_expr.rsqrt(x)


@op(FLOATING)
def sin(x: ScalarExpr) -> ScalarExpr:
    """Computes the sine."""
    return scalar_expr.sin(x)


@op(FLOATING)
def cos(x: ScalarExpr) -> ScalarExpr:
    """Computes the cosine."""
    return scalar_expr.cos(x)


@op(FLOATING)
def tan(x: ScalarExpr) -> ScalarExpr:
    """Computes the tangent."""
    return scalar_expr.tan(x)


@op(FLOATING)
def sinh(x: ScalarExpr) -> ScalarExpr:
    """Computes the hyperbolic sine."""
    return scalar_expr.sinh(x)


@op(FLOATING)
def cosh(x: ScalarExpr) -> ScalarExpr:
    """Computes the hyperbolic cosine."""
    return scalar_expr.cosh(x)


@op(FLOATING)
def tanh(x: ScalarExpr) -> ScalarExpr:
    """Computes the hyperbolic tangent."""
    return scalar_expr.tanh(x)


@op(FLOATING)
def asin(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse sine."""
    return scalar_expr.asin(x)


@op(FLOATING)
def acos(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse cosine."""
    return scalar_expr.acos(x)


@op(FLOATING)
def atan(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse tangent."""
    return scalar_expr.atan(x)


@op(FLOATING)
def asinh(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse hyperbolic sine."""
    return scalar_expr.asinh(x)


@op(FLOATING)
def acosh(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse hyperbolic cosine."""
    return scalar_expr.acosh(x)


@op(FLOATING)
def atanh(x: ScalarExpr) -> ScalarExpr:
    """Computes the inverse hyperbolic tangent."""
    return scalar_expr.atanh(x)


@op(FLOATING)
def erf(x: ScalarExpr) -> ScalarExpr:
    """Computes the error function."""
    return scalar_expr.erf(x)


@op(FLOATING)
def sigmoid(x: ScalarExpr) -> ScalarExpr:
    """Computes 1 / (1 + exp(-x))."""
    return scalar_expr.sigmoid(x)


@op(TEST)
def isnan(x: ScalarExpr) -> ScalarExpr:
    """Tests for NaN."""
    return scalar_expr.isnan(x)


@op(TEST)
def isinf(x: ScalarExpr) -> ScalarExpr:
    """Tests for infinity."""
    return scalar_expr.isinf(x)


@op(TEST)
def isfinite(x: ScalarExpr) -> ScalarExpr:
    """Tests for finite numbers."""
    return scalar_expr.isfinite(x)


@op(SAME)
def logical_not(x: ScalarExpr) -> ScalarExpr:
    """Tests for zero or false; keeps the dtype."""
    return scalar_expr.not_(x)


@op(INTEGRAL, operator="~")
def bitwise_not(x: ScalarExpr) -> ScalarExpr:
    """Inverts all bits."""
    return ~x


def _clip_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with bounds that the dtype represents."""
    dtype, bounds = call.info("x").dtype, {name: call[name] for name in ("min", "max")}
    if dtype is not None and is_int(dtype):
        least, greatest = int_limits(dtype)
        for name, bound in bounds.items():
            bounds[name] = least if bound < least else greatest if bound > greatest else bound
    return ResolvedSignature(SAME, attributes=bounds)


@op(_clip_signature)
def clip(x: ScalarExpr, min: Number, max: Number) -> ScalarExpr:
    """Limits elements to the range from `min` to `max`."""
    return scalar_expr.min(max, scalar_expr.max(min, x))


@op("x[*s] -> y[*s] @ dtype")
def astype(x: ScalarExpr, dtype: DType) -> ScalarExpr:
    """Converts the elements to another dtype.

    A float converts to an integer toward zero; it saturates at the limits of the dtype, and NaN
    becomes 0. Integers keep their low bits.
    """
    return scalar_expr.cast(x, dtype)


@op("x[*s] @ T1, like[*r] @ T2 -> y[*s] @ T2", parts=True)
def astype_like(x: Expr, like: Expr) -> Expr | None:
    """Converts the elements to the dtype of another tensor, of which only the dtype is used."""
    dtype = like.struct_info.dtype
    return None if dtype is None else astype(x, dtype)


@astype_like.gradient
def _astype_like_gradient(
    call: Call, result: Expr, cotangent: Expr, emit: Callable[[Expr], Expr]
) -> list[Expr]:
    """Returns the cotangent in the dtype of the operand."""
    return [emit(astype_like(cotangent, call.args[0]))]


@op("x[*s] -> y[*s] @ dtype")
def wrap_param(x: ScalarExpr, dtype: DType = "float32") -> ScalarExpr:
    """Converts a parameter to the dtype of computation."""
    return scalar_expr.cast(x, dtype)


exp.example(f32[3, 7])
clip.example(f32[2, 3], -0.25, 0.75)
astype.definition.hooks["like"] = "astype_like"
astype.example(f32[2, 3], "int64")
astype_like.example(f32[2, 3], f32[4])
astype.example(ExactValues("float32", (math.nan, math.inf, -math.inf, 3e9, -3e9, -1.75)), "int32")
astype.example(ExactValues("float32", (math.nan, math.inf, -0.5, 255.5, 300.0, -1.75)), "uint8")
acosh.example(ExactValues("float32", (1.25, 2.0, 7.5)))
