"""Quantization: conversion between floating-point and integer dtypes."""

from __future__ import annotations

from typing import Annotated

from structir.opdef.attributes import Axis, dtype_among
from structir.opdef.call_view import CallView
from structir.opdef.define import op
from structir.opdef.examples import f32, i32
from structir.projections import scalar_expr
from structir.projections.scalar_expr import ScalarExpr

IntegerType = Annotated[str, dtype_among("int8 uint8 int16 uint16 int32 uint32 int64 uint64")]
FloatType = Annotated[str, dtype_among("float16 bfloat16 float32 float64")]


def scaled_signature(call: CallView, family: str) -> str:
    """Returns the signature of scale and zero point: scalars, or one per position of the axis."""
    scale, zero = ("" if call.rank(name) == 0 else "i" for name in ("scale", "zero_point"))
    weights = f"scale[{scale}] @ F1, zero_point[{zero}] @ T3"
    return f"x[*p, i, *t] @ {family}, {weights} -> y[*p, i, *t] @ out_dtype"


def quantize_signature(call: CallView) -> str:
    """Returns the signature of quantization."""
    return scaled_signature(call, "F")


def dequantize_signature(call: CallView) -> str:
    """Returns the signature of dequantization."""
    return scaled_signature(call, "I")


@op(quantize_signature, at={"i": "axis"})
def quantize(
    x: ScalarExpr,
    scale: ScalarExpr,
    zero_point: ScalarExpr,
    axis: Axis = -1,
    out_dtype: IntegerType = "int8",
) -> ScalarExpr:
    """Computes round(x / scale) + zero_point, saturated to the dtype."""
    value = scalar_expr.round(scalar_expr.cast(x, "float32") / scalar_expr.cast(scale, "float32"))
    return scalar_expr.cast(value + scalar_expr.cast(zero_point, "float32"), out_dtype)


@op(dequantize_signature, at={"i": "axis"})
def dequantize(
    x: ScalarExpr,
    scale: ScalarExpr,
    zero_point: ScalarExpr,
    axis: Axis = -1,
    out_dtype: FloatType = "float32",
) -> ScalarExpr:
    """Computes (x - zero_point) * scale."""
    shifted = scalar_expr.cast(x, "float32") - scalar_expr.cast(zero_point, "float32")
    return scalar_expr.cast(shifted * scalar_expr.cast(scale, "float32"), out_dtype)


quantize.example(f32[3, 4], f32[4], i32[4])
dequantize.example(i32[3, 4], f32[4], i32[4])
