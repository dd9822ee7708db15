"""Mappings of ONNX Runtime's quantized ops: fixed scales, and scales computed at run time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from structir.frontend.onnx.decompositions import as_node, build_as_one
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.quantise import (
    broadcast_parameter,
    dynamic_quantize_linear,
    q_linear_conv,
    quantize,
)
from structir.frontend.onnx.ops.recurrent import GateProducts, recurrent_layers
from structir.frontend.onnx.quantised_lstm import quantised_lstm_kernel
from structir.frontend.onnx.registry import MICROSOFT, R, onnx_op
from structir.frontend.scalars import constant, number, reshape_to
from structir.ir.expr import Constant, Expr, Tuple
from structir.ir.kernel import Kernel

FLOAT = "float32"
MAX_KERNEL_HIDDEN = 128  # hidden size up to which a quantized LSTM is one kernel


def dequantize(node: OnnxNode, index: int) -> Expr:
    """Returns a dequantized operand; its scale and zero point are the next two operands."""
    x: Expr = R.astype(node[index], "int32")
    if node.has(index + 2):
        zero = R.astype(broadcast_parameter(node, index + 2, None, index), "int32")
        x = R.subtract(x, node.importer.fold_constant(zero))
    return node.emit(
        R.multiply(R.astype(x, FLOAT), broadcast_parameter(node, index + 1, None, index))
    )


def quantize_result(node: OnnxNode, x: Expr, index: int) -> Expr:
    """Returns a tensor quantized with the scale operand at `index` and the zero point after it."""
    zero = broadcast_parameter(node, index + 1, None) if node.has(index + 1) else None
    dtype = node.dtype(index + 1) if node.has(index + 1) else node.dtype()
    return quantize(node, R.divide(x, broadcast_parameter(node, index, None)), zero, dtype)


@onnx_op("QLinearAdd", domain=MICROSOFT)
def q_linear_add(node: OnnxNode) -> Expr:
    return quantize_result(node, R.add(dequantize(node, 0), dequantize(node, 3)), 6)


@onnx_op("QLinearMul", domain=MICROSOFT)
def q_linear_mul(node: OnnxNode) -> Expr:
    return quantize_result(node, R.multiply(dequantize(node, 0), dequantize(node, 3)), 6)


@onnx_op("QLinearSigmoid", domain=MICROSOFT)
def q_linear_sigmoid(node: OnnxNode) -> Expr:
    return quantize_result(node, R.sigmoid(dequantize(node, 0)), 3)


@onnx_op("QLinearLeakyRelu", domain=MICROSOFT)
def q_linear_leaky_relu(node: OnnxNode) -> Expr:
    result = build_as_one(node, "LeakyRelu", dequantize(node, 0), alpha=node.attr("alpha", 0.01))
    return quantize_result(node, result, 3)


@onnx_op("QLinearSoftmax", domain=MICROSOFT)
def q_linear_softmax(node: OnnxNode) -> Expr:
    x, axis, rank = dequantize(node, 0), node.axis("axis", -1), node.rank()
    if node.attr("opset", 13) < 13 and axis < rank - 1:
        flat = build_as_one(node, "Flatten", x, axis=axis)
        return quantize_result(node, reshape_to(R.nn.softmax(flat, axis=1), node.dims()), 3)
    return quantize_result(node, R.nn.softmax(x, axis=axis), 3)


@onnx_op("QLinearConcat", domain=MICROSOFT)
def q_linear_concat(node: OnnxNode) -> Expr:
    operands = [dequantize(node, index) for index in range(2, len(node.values), 3)]
    result = R.concat(Tuple(tuple(operands)), axis=node.axis("axis", rank=node.rank(2)))
    return quantize_result(node, result, 0)


@onnx_op("QLinearWhere", domain=MICROSOFT)
def q_linear_where(node: OnnxNode) -> Expr:
    return quantize_result(node, R.where(node[0], dequantize(node, 1), dequantize(node, 4)), 7)


@onnx_op("QLinearReduceMean", domain=MICROSOFT)
def q_linear_reduce_mean(node: OnnxNode) -> Expr:
    axes = node.attr("axes", None)
    result = R.mean(
        dequantize(node, 0),
        axis=None if axes is None else [node.normalize_axis(a, node.rank()) for a in axes],
        keepdims=node.flag("keepdims", 1),
    )
    return quantize_result(node, result, 3)


def channels_first(node: OnnxNode, x: Expr) -> Expr:
    """Returns a tensor with its last axis moved to axis 1."""
    rank = node.tensor_info(x).ndim or 0
    return node.emit(R.permute_dims(x, [0, rank - 1, *range(1, rank - 1)]))


def channels_last(node: OnnxNode, x: Expr) -> Expr:
    """Returns a tensor with axis 1 moved to the end."""
    x = node.emit(x)
    rank = node.tensor_info(x).ndim or 0
    return R.permute_dims(x, [0, *range(2, rank), 1])


def _pool(node: OnnxNode, op: str) -> Expr:
    is_channels_last = node.flag("channels_last")
    x = channels_first(node, dequantize(node, 0)) if is_channels_last else dequantize(node, 0)
    result = build_as_one(node, op, x)
    return quantize_result(node, channels_last(node, result) if is_channels_last else result, 3)


onnx_op("QLinearAveragePool", domain=MICROSOFT)(lambda node: _pool(node, "AveragePool"))
onnx_op("QLinearGlobalAveragePool", domain=MICROSOFT)(lambda node: _pool(node, "GlobalAveragePool"))


@onnx_op("QLinearConv", domain=MICROSOFT)
def conv_of_either_layout(node: OnnxNode) -> Expr:
    if not node.flag("channels_last"):
        return q_linear_conv(node)
    operands = [channels_first(node, node[0]), *[node.get(k) for k in range(1, len(node.values))]]
    return channels_last(node, q_linear_conv(as_node(node, "QLinearConv", operands)))


@onnx_op("NhwcMaxPool", domain=MICROSOFT)
def max_pool_of_last_channels(node: OnnxNode) -> Expr:
    return channels_last(node, build_as_one(node, "MaxPool", channels_first(node, node[0])))


# ---- products


def integer_product(
    node: OnnxNode, lhs: Expr, rhs: Expr, lhs_zero: Expr | None, rhs_zero: Expr | None
) -> Expr:
    """Returns the int32 product of integer matrices minus their zero points."""
    return build_as_one(node, "MatMulInteger", lhs, rhs, lhs_zero, rhs_zero)


@onnx_op("QGemm", domain=MICROSOFT)
def q_gemm(node: OnnxNode) -> Expr:
    lhs = R.permute_dims(node[0], [1, 0]) if node.flag("transA") else node[0]
    rhs = R.permute_dims(node[3], [1, 0]) if node.flag("transB") else node[3]
    product = integer_product(node, lhs, rhs, node.get(2), node.get(5))
    if node.has(6):
        product = R.add(product, node[6])
    scale = R.multiply(broadcast_parameter(node, 1, None), broadcast_parameter(node, 4, None, 3))
    result = R.multiply(R.astype(product, FLOAT), scale)
    alpha = node.attr("alpha", 1.0)
    result = result if alpha == 1.0 else R.multiply(result, number(alpha, FLOAT))
    return quantize_result(node, result, 7) if node.has(7) else result


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT)
def product_to_floats(node: OnnxNode) -> Expr:
    product = integer_product(node, node[0], node[1], node.get(4), node.get(5))
    scale = R.multiply(broadcast_parameter(node, 2, None, 0), broadcast_parameter(node, 3, -1, 1))
    result = R.multiply(R.astype(product, node.dtype(2)), node.importer.fold_constant(scale))
    return R.add(result, node[6]) if node.has(6) else result


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_product(node: OnnxNode) -> Expr:
    x, scale, zero = quantize_dynamically(node, node[0])
    product = integer_product(node, x, node[1], zero, node.get(3))
    total_scale = R.multiply(scale, broadcast_parameter(node, 2, -1, 1))
    result = R.multiply(R.astype(product, FLOAT), total_scale)
    return R.add(result, node[4]) if node.has(4) else result


def quantize_dynamically(node: OnnxNode, x: Expr) -> list[Expr]:
    """Returns a tensor quantized over its own range: uint8 elements, scale, zero point."""
    result = dynamic_quantize_linear(as_node(node, "DynamicQuantizeLinear", [x]))
    return [node.emit(v) for v in result]


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_lstm(node: OnnxNode) -> list[Any]:
    """Builds an LSTM whose input and hidden state are quantized before each product with the
    weights."""
    operands = [node.get(k) for k in range(8)]
    hidden = node.attr("hidden_size", None) or node.static_dims(2)[1]
    layers = as_node(node, "LSTM", operands, hidden_size=hidden)
    products = GateProducts(
        partial(_quantised_product, node, 1),
        partial(_quantised_product, node, 2),
        partial(_lstm_kernel, node),
    )
    return recurrent_layers(layers, products)


def _lstm_kernel(node: OnnxNode, direction: int, reverse: bool) -> tuple[Kernel, list[Expr]] | None:
    """Returns the kernel of one direction and its weights, or None.

    The weights must be constants that fit int8, with at most `MAX_KERNEL_HIDDEN` rows: with more, a
    loop over int8 matrix products is faster.
    """
    constants = [_direction_weight(node, index, direction) for index in (2, 10, 11)]
    weights, scale, zeros = [x.data if isinstance(x, Constant) else None for x in constants]
    if weights is None or scale is None or zeros is None or len(weights) > MAX_KERNEL_HIDDEN:
        return None
    shifted = weights.astype(np.int32) - zeros.astype(np.int32)
    if not ((shifted >= -128) & (shifted <= 127)).all():
        return None
    width = shifted.shape[1]
    bias = np.zeros(width, FLOAT)
    if node.has(3):
        biases = _direction_weight(node, 3, direction)
        if not isinstance(biases, Constant):
            return None
        bias = biases.data[width:]
    scales = np.broadcast_to(scale.reshape(-1), (width,))
    parts = [shifted.astype(np.int8), shifted.sum(axis=0, dtype=np.int32), scales, bias]
    return quantised_lstm_kernel(reverse), [Constant(np.ascontiguousarray(p)) for p in parts]


def _quantised_product(node: OnnxNode, index: int, direction: int, x: Expr) -> Expr:
    """Returns the product with the weights of one direction; their scale and zero point are the
    operands from 8 on."""
    scale_index = 6 + 2 * index
    weights, scale, zeros = [
        _direction_weight(node, k, direction) for k in (index, scale_index, scale_index + 1)
    ]
    quantized, input_scale, zero = quantize_dynamically(node, x)
    product = integer_product(node, quantized, weights, zero, zeros)
    return R.multiply(R.astype(product, FLOAT), R.multiply(input_scale, scale))


def _direction_weight(node: OnnxNode, index: int, direction: int) -> Expr:
    return node.importer.fold_constant(R.take(node[index], constant(direction), axis=0))


@onnx_op("MatMulNBits", domain=MICROSOFT)
def mat_mul_n_bits(node: OnnxNode) -> Expr:
    """Builds the product with a weight of 2, 4 or 8 bits that has a scale and a zero point per
    block."""
    terms, columns = int(node.attr("K")), int(node.attr("N"))
    bits, block = int(node.choice("bits", (2, 4, 8), 4)), int(node.attr("block_size"))
    blocks, dtype = -(-terms // block), node.dtype()
    values = _unpack_bits(reshape_to(node[1], (columns, -1)), columns, bits, blocks * block)
    scales = reshape_to(R.astype(node[2], FLOAT), (columns, blocks))
    zeros: Expr = number(2 ** (bits - 1), FLOAT)
    if node.has(3) and node.dtype(3) == "uint8":
        zeros = _unpack_bits(reshape_to(node[3], (columns, -1)), columns, bits, blocks)
    elif node.has(3):
        zeros = reshape_to(R.astype(node[3], FLOAT), (columns, blocks))
    block_of = node[4] if node.has(4) else constant(np.arange(blocks * block) // block)

    def by_term(parameter: Expr) -> Expr:
        return R.take(parameter, R.astype(block_of, "int64"), axis=1)

    if node.has(4):
        values = R.strided_slice(values, [1], (0,), (terms,))
    zeros = by_term(zeros) if node.has(3) else zeros
    weight = R.multiply(R.subtract(values, zeros), by_term(scales))
    weight = R.astype(R.strided_slice(weight, [1], (0,), (terms,)), dtype)
    weight = node.importer.fold_constant(R.permute_dims(weight, [1, 0]))
    result = R.matmul(node[0], weight)
    return R.add(result, node[5]) if node.has(5) else result


def _unpack_bits(packed: Expr, rows: int, bits: int, count: int) -> Expr:
    """Returns the first `count` numbers of each row of packed bytes, lowest bits first."""
    shifts = constant(np.arange(0, 8, bits), "int32")
    parts = R.right_shift(R.expand_dims(R.astype(packed, "int32"), [2]), shifts)
    numbers = R.bitwise_and(parts, number(2**bits - 1, "int32"))
    flat = reshape_to(numbers, (rows, -1))
    return R.astype(R.strided_slice(flat, [1], (0,), (count,)), FLOAT)
