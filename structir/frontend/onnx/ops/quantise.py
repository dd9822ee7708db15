"""Mappings of quantization, and of products and convolutions of quantized operands."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.cast import convert_dtype
from structir.frontend.onnx.ops.conv import convolve, with_bias
from structir.frontend.onnx.registry import MICROSOFT, onnx_op
from structir.frontend.scalars import number, reshape_to
from structir.ir.dims import Dim
from structir.ir.dtype import SIGNED, is_float
from structir.ir.expr import Constant, Expr
from structir.script import R


def limits(dtype: str) -> tuple[int, int]:
    """Returns the lowest and the highest value of an integer dtype."""
    bits = int(dtype.lstrip("uint"))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype in SIGNED else (0, 2**bits - 1)


def broadcast_parameter(node: OnnxNode, index: int, axis: int | None, like: int = 0) -> Expr:
    """Returns a scale or a zero point reshaped to broadcast with operand `like`: one value per
    tensor, per element of an axis, or per block along an axis."""
    x, rank, operand_rank = node[index], node.rank(like), node.rank(index)
    block = node.attr("block_size", 0)
    if operand_rank == rank and rank > 1 and block:
        axis = node.normalize_axis(axis or 0, rank)
        repeated = R.repeat(x, int(block), axis=axis)
        size = node.dims(like)[axis]
        return R.strided_slice(repeated, [axis], (0,), (size,)) if rank else repeated
    if operand_rank == 0:
        return x
    sizes = node.dims(index)
    if operand_rank == 1 and sizes[0] == 1:
        return reshape_to(x, ())
    if operand_rank != 1 or axis is None:
        return x
    axis = node.normalize_axis(axis, rank)
    return reshape_to(x, (sizes[0], *[1] * (rank - 1 - axis)))


@onnx_op("QuantizeLinear")
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(node: OnnxNode) -> Expr:
    axis = node.attr("axis", 1) if node.rank() else None
    dtype = node.dtype(2) if node.has(2) else node.dtype_attr("output_dtype", "uint8") or "uint8"
    precision = node.dtype_attr("precision", None)
    x, scale = node[0], broadcast_parameter(node, 1, axis)
    work_dtype = precision or node.dtype(1)
    if not is_float(node.dtype()) or node.dtype() != work_dtype:
        x = R.astype(x, work_dtype)
    scale = scale if node.dtype(1) == work_dtype else R.astype(scale, work_dtype)
    zero = broadcast_parameter(node, 2, axis) if node.has(2) else None
    return quantize(node, R.divide(x, scale), zero, dtype)


def quantize(node: OnnxNode, x: Expr, zero: Expr | None, dtype: str) -> Expr:
    """Returns scaled numbers shifted by the zero point, rounded, and saturated to a dtype."""
    if is_float(dtype):
        return convert_dtype(node, x, dtype, node.flag("saturate", 1))
    rounded = R.round(R.astype(x, "float32"))
    if zero is not None:
        rounded = R.add(rounded, node.importer.fold_constant(R.astype(zero, "float32")))
    low, high = limits(dtype)
    result: Expr = R.astype(R.clip(rounded, float(low), float(high)), "int32")
    return R.astype(result, dtype) if dtype != "int32" else result


@onnx_op("DequantizeLinear")
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(node: OnnxNode) -> Expr:
    axis = node.attr("axis", 1) if node.rank() else None
    dtype = node.dtype_attr("output_dtype", None) or node.dtype(1)
    scale = broadcast_parameter(node, 1, axis)
    x = node[0]
    if node.has(2) and not is_float(node.dtype()):
        zero = R.astype(broadcast_parameter(node, 2, axis), "int32")
        x = R.subtract(R.astype(x, "int32"), node.importer.fold_constant(zero))
    x = R.multiply(R.astype(x, node.dtype(1)), scale)
    return x if dtype == node.dtype(1) else R.astype(x, dtype)


def subtract_zero_point(
    node: OnnxNode, index: int, zero: int, axis: int | None, dtype: str
) -> Expr:
    """Returns an integer operand minus its zero point, in a wider dtype."""
    x = R.astype(node[index], dtype)
    if not node.has(zero):
        return x
    return R.subtract(x, R.astype(broadcast_parameter(node, zero, axis, index), dtype))


def max_magnitude(node: OnnxNode, index: int, zero: int) -> int:
    """Returns the largest magnitude of an integer operand minus its zero point."""
    x, point = node[index], node.get(zero)
    low, high = limits(node.dtype(index))
    if isinstance(x, Constant) and x.data.size:
        low, high = int(x.data.min()), int(x.data.max())
    first, last = limits(node.dtype(zero)) if point is not None else (0, 0)
    if isinstance(point, Constant) and point.data.size:
        first, last = int(point.data.min()), int(point.data.max())
    return max(abs(low - last), abs(high - first))


MAX_EXACT_FLOAT32 = 1 << 24  # float32 represents all integers up to this one
MAX_PARTS = 8  # partial sums of a product


def exact_parts(terms: Dim, lhs_bound: int, rhs_bound: int) -> tuple[str, int]:
    """Returns the float dtype that represents a sum of integer products exactly, and the number of
    terms per part.

    Float matrix products are faster than integer ones.
    """
    exact_terms = MAX_EXACT_FLOAT32 // max(lhs_bound * rhs_bound, 1)
    if isinstance(terms, int) and terms <= exact_terms * MAX_PARTS:
        parts = max(-(-terms // max(exact_terms, 1)), 1)
        return "float32", -(-terms // parts)
    return "float64", 0


def _product(node: OnnxNode, operands: tuple[int, int], zeros: tuple[int, int]) -> Expr:
    """Returns the int32 product of integer matrices: an int8 product for a constant right operand,
    else exact float products."""
    is_constant = (
        node.is_constant(operands[1]) and node.rank(operands[1]) == 2 and node.rank(operands[0]) > 1
    )
    if is_constant and (not node.has(zeros[1]) or node.is_constant(zeros[1])):
        return _product_with_constant(node, operands, zeros)
    bounds = [max_magnitude(node, p, z) for p, z in zip(operands, zeros, strict=True)]
    terms = node.dims(operands[0])[-1]
    dtype, part = exact_parts(terms, *bounds)
    axes = [a if node.rank(p) > 1 else None for a, p in zip((-2, -1), operands, strict=True)]
    lhs, rhs = [
        subtract_zero_point(node, p, z, a, dtype)
        for p, z, a in zip(operands, zeros, axes, strict=True)
    ]
    if dtype == "float64" or part == terms:
        return R.astype(R.matmul(lhs, rhs), "int32")
    lhs, rhs = node.emit(lhs), node.emit(rhs)
    sums = []
    for start in range(0, int(terms), part):  # type: ignore[arg-type]
        index = (start,), (start + part,)
        row = R.strided_slice(lhs, [node.rank(operands[0]) - 1], *index)
        column = R.strided_slice(rhs, [max(node.rank(operands[1]) - 2, 0)], *index)
        sums.append(R.astype(R.matmul(row, column), "int32"))
    return reduce(R.add, sums)


def _product_with_constant(
    node: OnnxNode, operands: tuple[int, int], zeros: tuple[int, int]
) -> Expr:
    """Returns an int8 product in int32, corrected for the zero points and for the shift to int8."""
    weights = node.constant(operands[1]).astype(np.int32)
    zero_point = node.constant(zeros[1]) if node.has(zeros[1]) else np.zeros(())
    point = zero_point.astype(np.int32)
    remainder = np.zeros_like(point)
    if not ((weights - point >= -128) & (weights - point <= 127)).all():
        shift = np.array(128 if node.dtype(operands[1]) == "uint8" else 0, np.int32)
        point, remainder = shift, point - shift
    weights = (weights - point).astype(np.int8)
    x, zero = _to_int8(node, operands[0], zeros[0])
    product: Expr = R.matmul(x, Constant(weights), out_dtype="int32")
    if zero is not None:
        sums = Constant(weights.sum(axis=0, dtype=np.int32))
        product = R.subtract(product, node.importer.fold_constant(R.multiply(zero, sums)))
    if remainder.any():
        correction: Expr = R.sum(R.astype(x, "int32"), axis=-1, keepdims=True)
        if zero is not None:
            product_of_zeros = R.multiply(zero, number(weights.shape[0], "int32"))
            correction = R.subtract(correction, node.importer.fold_constant(product_of_zeros))
        product = R.subtract(product, R.multiply(correction, Constant(np.atleast_1d(remainder))))
    return product


def _to_int8(node: OnnxNode, index: int, zero: int) -> tuple[Expr, Expr | None]:
    """Returns the left operand of a product as int8, and its zero point as int32; None for zero."""
    x, point = node[index], None
    if node.has(zero):
        point = R.astype(broadcast_parameter(node, zero, -2, index), "int32")
    if node.dtype(index) != "uint8":
        return x, point
    offset = number(128, "int32")
    x = node.emit(R.astype(R.subtract(R.astype(x, "int32"), offset), "int8"))
    return x, R.subtract(number(0, "int32") if point is None else point, offset)


def _convolution(node: OnnxNode, operands: tuple[int, int], zeros: tuple[int, int]) -> Expr:
    """Returns a convolution of integers in int32, computed in floats."""
    bounds = [max_magnitude(node, p, z) for p, z in zip(operands, zeros, strict=True)]
    terms = prod(node.dims(operands[1])[1:])
    dtype, part = exact_parts(terms, *bounds)
    if part != terms:
        dtype = "float64"
    x = subtract_zero_point(node, operands[0], zeros[0], None, dtype)
    weights = subtract_zero_point(node, operands[1], zeros[1], 0, dtype)
    return R.astype(convolve(node, x, weights, operands[1]), "int32")


onnx_op("MatMulInteger")(lambda node: _product(node, (0, 1), (2, 3)))
onnx_op("ConvInteger")(lambda node: _convolution(node, (0, 1), (2, 3)))


@onnx_op("QLinearMatMul")
def q_linear_mat_mul(node: OnnxNode) -> Expr:
    left_axis = -2 if node.rank(0) > 1 else None
    right_axis = -1 if node.rank(3) > 1 else None
    product = _product(node, (0, 3), (2, 5))
    scale = R.divide(
        R.multiply(
            broadcast_parameter(node, 1, left_axis), broadcast_parameter(node, 4, right_axis, 3)
        ),
        node[6],
    )
    scale = node.importer.fold_constant(R.astype(scale, "float32"))
    scaled = R.multiply(R.astype(product, "float32"), scale)
    return quantize(node, scaled, broadcast_parameter(node, 7, None), node.dtype(7))


@onnx_op("QLinearConv")
def q_linear_conv(node: OnnxNode) -> Expr:
    product = with_bias(node, _convolution(node, (0, 3), (2, 5)), 8)
    trailing = [1] * (node.rank() - 2)
    weights = node[4] if node.rank(4) == 0 else reshape_to(node[4], (-1, *trailing))
    scale = R.divide(
        R.multiply(broadcast_parameter(node, 1, None), weights), broadcast_parameter(node, 6, None)
    )
    scaled = R.multiply(R.astype(product, "float32"), scale)
    return quantize(node, scaled, broadcast_parameter(node, 7, None), node.dtype(7))


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: OnnxNode) -> list[Expr]:
    x = node[0]
    zero = number(0, "float32")
    low = node.emit(R.minimum(R.min(x), zero))
    high = R.maximum(R.max(x), zero)
    scale = node.emit(R.divide(R.subtract(high, low), number(255, "float32")))
    safe = node.emit(R.where(R.equal(scale, zero), number(1, "float32"), scale))
    shift = R.clip(R.round(R.divide(R.negative(low), safe)), 0.0, 255.0)
    point = node.emit(R.astype(R.astype(shift, "int32"), "uint8"))
    return [quantize(node, R.divide(x, safe), point, "uint8"), scale, point]
