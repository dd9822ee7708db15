"""Mappings of ONNX Runtime's gather from quantized rows, and of its ops that the default domain has
under the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.decompositions import build_as
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.indexing import normalize_indices
from structir.frontend.onnx.registry import MICROSOFT, R, onnx_op
from structir.frontend.scalars import constant, number
from structir.ir.expr import Expr, ShapeExpr


def _as_default(name: str) -> None:
    @onnx_op(name, domain=MICROSOFT)
    def build(node: OnnxNode) -> Any:
        return build_as(node, name, *[node.get(k) for k in range(len(node.values))])


for _name in ("GatherND", "Pad", "Range"):
    _as_default(_name)


@onnx_op("ExpandDims", domain=MICROSOFT)
def expand_dims(node: OnnxNode) -> Expr:
    axes = [node.normalize_axis(axis, node.rank() + 1) for axis in node.ints(1)]
    return R.expand_dims(node[0], axes)


@onnx_op("GatherBlockQuantized", domain=MICROSOFT)
def gather_from_blocks(node: OnnxNode) -> Expr:
    """Builds a gather along one axis of integers that have a scale and a zero point per block along
    another; only the gathered ones are dequantized. Bytes contain numbers of fewer bits along the
    last axis, lowest bits first."""
    gathered, blocked = node.axis("gather_axis", 0), node.axis("quantize_axis", 1)
    if gathered == blocked:
        node.fail(f"expected different axes to gather from and of blocks, found {gathered} twice")
    bits = int(node.choice("bits", (2, 4, 8), 4)) if node.dtype() == "uint8" else 8
    is_packed = node.dtype() == "uint8"
    if bits < 8 and blocked != node.rank() - 1:
        node.fail(f"quantize_axis: expected the last axis of packed bytes, found {blocked}")
    indices = node.emit(normalize_indices(node, node[1], node.dims()[gathered]))
    axis = blocked + (node.rank(1) - 1 if blocked > gathered else 0)

    def numbers(index: int) -> Expr:
        picked = node.emit(R.take(node[index], indices, axis=gathered))
        return _unpacked(node, picked, bits) if bits < 8 else R.astype(picked, "int32")

    values = node.emit(numbers(0))
    size = _sizes(node, values)[axis]
    if not isinstance(size, int):
        node.fail(f"expected a constant size of axis {blocked}, found {size}")
    block_of = constant(np.arange(size) // int(node.attr("block_size", 128)))

    def per_block(parameter: Expr) -> Expr:
        return R.take(parameter, block_of, axis=axis)

    zeros: Expr = number(2 ** (bits - 1) if is_packed else 0, "int32")
    zeros = per_block(node.emit(numbers(3))) if node.has(3) else zeros
    scales = per_block(node.emit(R.take(node[2], indices, axis=gathered)))
    return R.multiply(R.astype(R.subtract(values, zeros), node.dtype(2)), scales)


def _sizes(node: OnnxNode, x: Expr) -> tuple[Any, ...]:
    sizes = node.tensor_info(x).dims
    return sizes if isinstance(sizes, tuple) else ()


def _unpacked(node: OnnxNode, packed: Expr, bits: int) -> Expr:
    """Returns the numbers of packed bytes, along the last axis."""
    *leading, last = _sizes(node, packed)
    shifts = constant(np.arange(0, 8, bits), "int32")
    parts = R.right_shift(R.expand_dims(R.astype(packed, "int32"), [len(leading) + 1]), shifts)
    parts = R.bitwise_and(parts, number(2**bits - 1, "int32"))
    return R.reshape(parts, ShapeExpr((*leading, last * (8 // bits))))
