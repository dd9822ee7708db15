"""Quantisation: between floating-point numbers and small integers."""

from __future__ import annotations

from typing import Annotated

from structir.ops.attributes import Axis, dtype_among
from structir.ops.define import op
from structir.ops.examples import f32, i32
from structir.ops.given import Given
from structir.projections import point
from structir.projections.point import Point

IntegerType = Annotated[str, dtype_among("int8 uint8 int16 uint16 int32 uint32 int64 uint64")]
FloatType = Annotated[str, dtype_among("float16 bfloat16 float32 float64")]


def scaled(given: Given, family: str) -> str:
    """One scale and zero point for all, or one for each place along the axis."""
    scale, zero = ("" if given.rank(name) == 0 else "i" for name in ("scale", "zero_point"))
    weights = f"scale[{scale}] @ F1, zero_point[{zero}] @ T3"
    return f"x[*p, i, *t] @ {family}, {weights} -> y[*p, i, *t] @ out_dtype"


def to_integers(given: Given) -> str:
    """From floating-point numbers."""
    return scaled(given, "F")


def to_floats(given: Given) -> str:
    """From integers."""
    return scaled(given, "I")


@op(to_integers, at={"i": "axis"})
def quantize(
    x: Point, scale: Point, zero_point: Point, axis: Axis = -1, out_dtype: IntegerType = "int8"
) -> Point:
    """round(x / scale) + zero_point, no further than the dtype reaches."""
    value = point.round(point.cast(x, "float32") / point.cast(scale, "float32"))
    return point.cast(value + point.cast(zero_point, "float32"), out_dtype)


@op(to_floats, at={"i": "axis"})
def dequantize(
    x: Point, scale: Point, zero_point: Point, axis: Axis = -1, out_dtype: FloatType = "float32"
) -> Point:
    """(x - zero_point) * scale."""
    shifted = point.cast(x, "float32") - point.cast(zero_point, "float32")
    return point.cast(shifted * point.cast(scale, "float32"), out_dtype)


quantize.example(f32[3, 4], f32[4], i32[4])
dequantize.example(i32[3, 4], f32[4], i32[4])
