"""Mappings of dtype conversion and bit casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import number
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


@onnx_op("CastLike")
def cast_like(node: OnnxNode) -> Any:
    return _convert_operand(node, node.dtype(1))


def _convert_operand(node: OnnxNode, dtype: str) -> Any:
    if node.dtype() == dtype:
        return node.values[0]
    return convert_dtype(node, node[0], dtype, node.flag("saturate", 1))


def convert_dtype(node: OnnxNode, x: Expr, dtype: str, saturate: bool = True) -> Expr:
    """Returns a tensor in another dtype; small floats saturate, small integers wrap around."""
    source_dtype = node.tensor_info(x).dtype or "float32"
    if dtype in SMALL_FLOATS and saturate and dtype != "float8_e8m0fnu":
        x = R.astype(x, "float32") if source_dtype != "float32" else x
        top = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
        x = R.where(R.isnan(x), x, R.clip(x, -top, top))
    elif dtype in SMALL_INTS and source_dtype not in INTS:
        x = R.astype(x, "int32")
    elif source_dtype in SMALL_FLOATS | SMALL_INTS and not is_float(dtype):
        x = R.astype(x, "float32")
    result: Expr = R.astype(x, dtype)
    return result


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
    result: Expr = R.astype(node[0], dtype)
    return result
