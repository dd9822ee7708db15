"""Mappings of torch's quantized programs: quantize and dequantize by tensor, channel or token, and
products of quantized matrices."""

from __future__ import annotations

from typing import Any

from structir.frontend.scalars import number, reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir.expr import Expr
from structir.script import R


def _overloads(name: str, *overloads: str) -> list[str]:
    return [f":quantized_decomposed.{name}.{overload}" for overload in ("default", *overloads)]


def _bounded(node: FxNode, x: Expr) -> Expr:
    """Returns numbers clipped to the range of quantized numbers, in their dtype."""
    dtype = node.dtype_of(x := node.emit(x))
    low, high = [as_tensor(node.arg(name), dtype) for name in ("quant_min", "quant_max")]
    return cast(R.minimum(R.maximum(x, low), high), node.out_dtype())


def _inverse(node: FxNode, scale: Expr) -> Expr:
    return node.emit(R.divide(number(1.0, node.dtype_of(scale)), scale))


def _quantized(node: FxNode, x: Expr, inverse_scale: Expr, zero_point: Expr) -> Expr:
    scaled = node.emit(R.multiply(x, inverse_scale))
    return _bounded(node, R.add(R.round(scaled), cast(zero_point, node.dtype_of(scaled))))


@torch_op(*_overloads("quantize_per_tensor", "tensor", "tensor2"))
def quantize_per_tensor(node: FxNode) -> Expr:
    """Builds quantization by one scale, whose inverse torch computes in float64."""
    x, zero_point = node["input"], as_tensor(node.arg("zero_point"), "int64")
    x = cast(x, "float32") if node.dtype("input") in ("float16", "bfloat16") else x
    inverse = _inverse(node, node.emit(reshape_to(as_tensor(node.arg("scale"), "float64"), ())))
    inverse = cast(inverse, node.dtype_of(x))
    return _quantized(node, x, inverse, reshape_to(zero_point, ()))


@torch_op(*_overloads("dequantize_per_tensor", "tensor", "tensor2"))
def dequantize_per_tensor(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    zero_point, scale = [as_tensor(node.arg(name), dtype) for name in ("zero_point", "scale")]
    shifted = R.subtract(cast(node["input"], dtype), reshape_to(zero_point, ()))
    return R.multiply(shifted, reshape_to(scale, ()))


def _per_channel(node: FxNode, name: str) -> Expr:
    """Returns the numbers of each channel, to broadcast against the operand."""
    sizes: list[Any] = [1] * node.rank("input")
    axis = node.axis("axis", of="input")
    sizes[axis] = node.dims("input")[axis]
    return node.emit(reshape_to(node[name], sizes))


@torch_op(*_overloads("quantize_per_channel"))
def quantize_per_channel(node: FxNode) -> Expr:
    inverse = _inverse(node, _per_channel(node, "scales"))
    x = cast(node["input"], node.dtype_of(inverse))
    return _quantized(node, x, inverse, _per_channel(node, "zero_points"))


@torch_op(*_overloads("dequantize_per_channel"))
def dequantize_per_channel(node: FxNode) -> Expr:
    scales, x = _per_channel(node, "scales"), node["input"]
    dtype = node.dtype_of(scales)
    if node.get("zero_points") is not None:
        zero_points = cast(_per_channel(node, "zero_points"), dtype)
        x = R.subtract(cast(x, dtype), zero_points)
    return cast(R.multiply(cast(x, dtype), scales), node.out_dtype())


@torch_op(*_overloads("quantize_per_token"))
def quantize_per_token(node: FxNode) -> Expr:
    """Builds quantization by the scale of each row; it rounds after the zero point is added."""
    scales = node["scales"]
    dtype = node.dtype_of(scales)
    scaled = R.multiply(cast(node["input"], dtype), _inverse(node, scales))
    return _bounded(node, R.round(R.add(scaled, cast(node["zero_points"], dtype))))


@torch_op(*_overloads("dequantize_per_token"))
def dequantize_per_token(node: FxNode) -> Expr:
    scales = node["scales"]
    dtype = node.dtype_of(scales)
    shifted = R.subtract(cast(node["input"], dtype), cast(node["zero_points"], dtype))
    return cast(R.multiply(shifted, scales), node.out_dtype())


@torch_op("_int_mm")
def integer_product(node: FxNode) -> Expr:
    """Builds the product of matrices of int8, in int32."""
    return R.matmul(node["self"], node["mat2"], out_dtype="int32")


@torch_op("_weight_int8pack_mm")
def product_with_int8_weights(node: FxNode) -> Expr:
    """Builds x @ weight^T, scaled per row of the weight, of int8."""
    x, dtype = node["self"], node.out_dtype()
    weight = R.permute_dims(cast(node["mat2"], dtype), [1, 0])
    return R.multiply(R.matmul(x, weight), cast(node["scales"], dtype))
