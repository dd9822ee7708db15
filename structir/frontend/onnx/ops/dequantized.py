"""Mappings of ops on dequantized operands: products of integers, moved elements of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from structir.frontend.constants import all_constant
from structir.frontend.onnx.decompositions import as_node
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.microsoft_quantised import product_to_floats
from structir.frontend.onnx.ops.quantise import dequantize_linear, max_magnitude
from structir.frontend.onnx.registry import R, find_build, quantized_op
from structir.frontend.onnx.values import OnnxValue, constant_elements
from structir.frontend.scalars import number
from structir.ir.expr import Constant, Expr

FLOAT = "float32"
BYTES = ("int8", "uint8")
WEIGHTS = (*BYTES, "int4", "uint4", "int2", "uint2")
MAX_SUM = 1 << 31  # int32 represents all sums below
MIN_SCALE, MAX_SCALE = 1e-30, 1e30  # integers times such a scale neither underflow nor overflow
MAX_FOLDED_ELEMENTS = 1 << 16


@quantized_op("DequantizeLinear")
def dequantize(node: OnnxNode) -> OnnxValue:
    """Builds the floats; records the node for the ops that read them.

    A tensor that was quantized with the same parameters has its floats already.
    """
    floats = None if node.values[0] is None else node.values[0].floats
    if floats is not None and _same_parameters(node, floats.dequantize):
        return floats
    return _floats(node, dequantize_linear(node))


def _floats(node: OnnxNode, floats: Expr) -> OnnxValue:
    """Returns the floats of a DequantizeLinear node; small constants are folded."""
    if all_constant(floats) and np.size(node.constant(0)) <= MAX_FOLDED_ELEMENTS:
        floats = node.importer.fold_constant(floats)
    sources = frozenset().union(*[v.sources for v in node.values if v is not None])
    return OnnxValue(floats, constant_elements(floats), sources, dequantize=node)


@quantized_op("QuantizeLinear")
def quantize(node: OnnxNode) -> OnnxValue | None:
    """Returns integers that were dequantized with the same scale and zero point."""
    source = dequantize_of(node, 0)
    if source is None or not _same_parameters(node, source):
        return None
    return attrs.evolve(source.values[0], floats=node.values[0])


def _same_parameters(node: OnnxNode, source: OnnxNode) -> bool:
    """Returns whether QuantizeLinear and DequantizeLinear nodes have equal constant parameters, one
    for the tensor: integers survive the conversion to floats and back."""
    dtypes = {_integer_dtype(node), _integer_dtype(source)}
    if not (_is_per_tensor(node) and _is_per_tensor(source)) or len(dtypes) > 1:
        return False
    if not dtypes <= {*WEIGHTS} or not (_has_floats(node) and _has_floats(source)):
        return False
    parameters = [[_parameter(x, k) for k in (1, 2)] for x in (node, source)]
    scale, zero = parameters[0]
    is_known = scale is not None and zero is not None and MIN_SCALE < abs(scale) < MAX_SCALE
    return is_known and parameters[0] == parameters[1]


def _parameter(node: OnnxNode, index: int) -> float | None:
    """Returns a scale or zero point, 0 if absent; None if unknown at import time."""
    if not node.has(index):
        return 0.0
    return float(node.constant(index).item()) if node.is_constant(index) else None


def dequantize_of(node: OnnxNode, index: int) -> Any:
    """Returns the DequantizeLinear node of an operand, or None."""
    value = node.values[index] if index < len(node.values) else None
    return None if value is None else value.dequantize


quantized_op("MatMul")(lambda node: _product(dequantize_of(node, 0), dequantize_of(node, 1)))


@quantized_op("Gemm")
def gemm(node: OnnxNode) -> Expr | None:
    sides = []
    for index, flag in enumerate(("transA", "transB")):
        side = dequantize_of(node, index)
        if side is not None and node.attr(flag, 0):
            side = _transposed(side, (1, 0))
        sides.append(side)
    result = _product(*sides)
    if result is None:
        return None
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    result = result if alpha == 1.0 else R.multiply(result, number(alpha, FLOAT))
    if not node.has(2):
        return result
    bias = node[2] if beta == 1.0 else R.multiply(node[2], number(beta, FLOAT))
    return R.add(result, node.importer.fold_constant(bias))


def _product(lhs: OnnxNode | None, rhs: OnnxNode | None) -> Expr | None:
    """Returns the product of integers with constant weights, scaled to floats; None if operands
    have other scales or dtypes, or sums might exceed int32."""
    if lhs is None or rhs is None or not _has_weights(rhs) or lhs.rank() < 2:
        return None
    terms = lhs.dims()[-1]
    if lhs.dtype() not in BYTES or not _has_floats(lhs) or not _is_per_tensor(lhs):
        return None
    if not isinstance(terms, int) or terms * max_magnitude(lhs, 0, 2) * 255 >= MAX_SUM:
        return None
    parts = [side.get(k) for k in range(3) for side in (lhs, rhs)]
    return product_to_floats(as_node(lhs, "MatMulIntegerToFloat", parts))


def _has_weights(node: OnnxNode) -> bool:
    """Returns whether constant matrices are dequantized per tensor or per column."""
    operands = [node[0], node[1], node.get(2)]
    constant = all(type(x) is Constant for x in operands if x is not None)
    if not constant or node.rank() != 2 or node.dtype() not in WEIGHTS or not _has_floats(node):
        return False
    return _is_per_tensor(node) or (node.rank(1) == 1 and _axis(node) == 1)


def _has_floats(node: OnnxNode) -> bool:
    """Returns whether the floats of a QuantizeLinear or DequantizeLinear node are float32."""
    name = "precision" if node.op_type == "QuantizeLinear" else "output_dtype"
    return node.dtype(1) == FLOAT and node.dtype_attr(name, FLOAT) == FLOAT


def _integer_dtype(node: OnnxNode) -> str | None:
    """Returns the dtype of the integers of a QuantizeLinear or DequantizeLinear node."""
    if node.has(2) or node.op_type == "DequantizeLinear":
        return node.dtype(2 if node.has(2) else 0)
    return node.dtype_attr("output_dtype", "uint8")


def _axis(node: OnnxNode) -> int:
    """Returns the axis along which the scales of a DequantizeLinear node differ."""
    return node.axis("axis", 1)


def _is_per_tensor(node: OnnxNode) -> bool:
    """Returns whether one scale holds for a whole tensor."""
    return node.info(1).ndim == 0 or node.info(1).dims == (1,)


@quantized_op("Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze")
def move(node: OnnxNode) -> OnnxValue | None:
    """Builds an op that moves elements of a dequantized tensor, and records the moved integers."""
    source = dequantize_of(node, 0)
    build = find_build(node.domain, node.op_type, node.version)
    if source is None or build is None or not _is_per_tensor(source):
        return None
    values = [source.values[0], *node.values[1:]]
    moved = OnnxNode(node.proto, node.version, values, node.importer, node.names, node.span)
    return _moved(node, build, _dequantize_node(source, build(moved)))


@quantized_op("Transpose")
def transpose(node: OnnxNode) -> OnnxValue | None:
    source = dequantize_of(node, 0)
    build = find_build(node.domain, node.op_type, node.version)
    if source is None or build is None or not (_is_per_tensor(source) or source.rank(1) == 1):
        return None
    order = node.attr("perm", None) or tuple(range(source.rank()))[::-1]
    return _moved(node, build, _transposed(source, order))


def _moved(node: OnnxNode, build: Any, integers: OnnxNode) -> OnnxValue:
    """Returns moved floats: constants are moved as integers, which are smaller."""
    if node.values[0].dequantize.is_constant(0):  # type: ignore[union-attr]
        return dequantize(integers)
    result = build(node)
    return _floats(integers, result.expr if isinstance(result, OnnxValue) else result)


def _transposed(source: OnnxNode, order: Sequence[int]) -> OnnxNode:
    """Returns the DequantizeLinear node of a transposed operand."""
    axis = None if _is_per_tensor(source) else list(order).index(_axis(source))
    return _dequantize_node(source, R.permute_dims(source[0], list(order)), axis)


def _dequantize_node(source: OnnxNode, x: Any, axis: int | None = None) -> OnnxNode:
    """Returns a DequantizeLinear node with another operand, and another axis of its scales."""
    moved = as_node(source, source.op_type, [source.get(k) for k in range(3)], axis=axis)
    x = source.importer.fold_constant(x.expr if isinstance(x, OnnxValue) else x)
    moved.values[0] = OnnxValue(x)
    return moved
