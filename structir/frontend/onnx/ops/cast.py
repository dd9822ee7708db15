"""Mappings of dtype conversion and bit casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.scalars import number
from structir.ir.dtype import INTS, SMALL_FLOATS, SMALL_INTS, is_float, numpy_dtype
from structir.ir.expr import Constant, Expr
from structir.lazy import lazy_module
from structir.script import R

ml_dtypes = lazy_module("ml_dtypes")


@onnx_op("Cast")
def cast(node: OnnxNode) -> Any:
    dtype = node.dtype_attr("to") or ""
    if not dtype:
        node.fail(f"to: expected an ONNX element type, found {node.attr('to', 0)}")
    return _convert_operand(node, dtype)


onnx_op("CastLike")(lambda node: _convert_operand(node, node.dtype(1)))


def _convert_operand(node: OnnxNode, dtype: str) -> Any:
    if node.dtype() == dtype:
        return node.values[0]
    return convert_dtype(node, node[0], dtype, node.flag("saturate", 1))


def _to_power_of_two(node: OnnxNode, x: Expr, saturate: bool) -> Expr:
    """Returns a tensor as float8_e8m0fnu, which holds powers of two, rounded as `round_mode`
    requires."""
    mode = node.choice("round_mode", ("up", "down", "nearest"), "up")
    bits = node.emit(R.memory.view(R.astype(x, "float32"), dtype="int32"))

    def integer(value: int) -> Expr:
        return number(value, "int32")

    exponent = node.emit(R.bitwise_and(R.right_shift(bits, integer(23)), integer(255)))
    fraction = node.emit(R.bitwise_and(bits, integer(0x7FFFFF)))
    half = R.where(R.equal(exponent, integer(0)), integer(0x400001), integer(0x400000))
    least = {"up": integer(1), "nearest": half, "down": integer(0x800000)}[mode]
    is_finite = R.less(exponent, integer(255))
    rounds_up = R.logical_and(is_finite, R.greater_equal(fraction, least))
    rounded = R.add(exponent, R.astype(rounds_up, "int32"))
    if saturate:
        rounded = R.where(R.isnan(x), rounded, R.minimum(rounded, integer(254)))
    rounded = node.emit(rounded)
    smallest = R.equal(rounded, integer(0))  # 2 ** -127 is a denormal float32
    power = R.where(smallest, integer(0x400000), R.left_shift(rounded, integer(23)))
    return R.astype(R.memory.view(node.emit(power), dtype="float32"), "float8_e8m0fnu")


def convert_dtype(node: OnnxNode, x: Expr, dtype: str, saturate: bool = True) -> Expr:
    """Returns a tensor in another dtype; small floats saturate, small integers wrap around."""
    source_dtype = node.tensor_info(x).dtype or "float32"
    if dtype == "float8_e8m0fnu":
        return _to_power_of_two(node, x, saturate)
    if dtype in SMALL_FLOATS and saturate:
        x = R.astype(x, "float32") if source_dtype != "float32" else x
        top = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
        x = R.where(R.isnan(x), x, R.clip(x, -top, top))
    elif dtype in SMALL_INTS and source_dtype not in INTS:
        x = R.astype(x, "int32")
    elif source_dtype in SMALL_FLOATS | SMALL_INTS and not is_float(dtype):
        x = R.astype(x, "float32")
    return R.astype(x, dtype)


@onnx_op("BitCast")
def bit_cast(node: OnnxNode) -> Any:
    dtype = node.dtype_attr("to") or ""
    if isinstance(node[0], Constant):
        return Constant(node.constant(0).view(numpy_dtype(dtype)))
    if node.dtype() == dtype:
        return node.values[0]
    if numpy_dtype(dtype).itemsize != numpy_dtype(node.dtype()).itemsize:
        node.fail(f"expected dtypes of equal width, found {node.dtype()} and {dtype}")
    if "bool" in (dtype, node.dtype()):
        return _of_bool(node, dtype)
    return R.memory.view(node[0], dtype=dtype)


def _of_bool(node: OnnxNode, dtype: str) -> Expr:
    if dtype == "bool":
        return R.not_equal(node[0], number(np.int8(0), node.dtype()))
    return R.astype(node[0], dtype)
