"""Mappings of random generation and image decoding, which call external functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.sampling import sampled
from structir.frontend.scalars import number
from structir.ir.expr import Expr, StringImm
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def generate(
    node: OnnxNode, name: str, sizes: Any, first: float, second: float, dtype: str
) -> Expr:
    """Generates random numbers of a shape; the output name is the default seed."""
    seed = node.attr("seed", None)
    if seed is None:
        seed = sum(map(ord, node.outputs[0])) / 7
    result = sampled(name, sizes, first, second, seed)
    return result if dtype == "float64" else R.astype(result, dtype)


@onnx_op("RandomUniform")
def random_uniform(node: OnnxNode) -> Expr:
    dtype = node.dtype_attr("dtype", "float32") or "float32"
    return generate(node, "uniform", node.attr("shape"), node.attr("low"), node.attr("high"), dtype)


@onnx_op("RandomUniformLike")
def random_uniform_like(node: OnnxNode) -> Expr:
    dtype = node.dtype_attr("dtype", node.dtype()) or "float32"
    return generate(node, "uniform", node.dims(), node.attr("low"), node.attr("high"), dtype)


@onnx_op("RandomNormal")
def random_normal(node: OnnxNode) -> Expr:
    dtype = node.dtype_attr("dtype", "float32") or "float32"
    return generate(
        node, "normal", node.attr("shape"), node.attr("mean"), node.attr("scale"), dtype
    )


@onnx_op("RandomNormalLike")
def random_normal_like(node: OnnxNode) -> Expr:
    dtype = node.dtype_attr("dtype", node.dtype()) or "float32"
    return generate(node, "normal", node.dims(), node.attr("mean"), node.attr("scale"), dtype)


@onnx_op("Dropout")
def dropout(node: OnnxNode) -> list[Any]:
    """Builds Dropout: the identity at inference, a seeded random mask in training."""
    training = node.values[2] if len(node.values) > 2 else None
    if training is not None and node.constant(2).any():
        return _random_dropout(node)
    mask = R.full_like(node[0], np.bool_(True), dtype="bool")
    if node.version < 10:
        mask = R.ones_like(node[0])
    return [node.values[0], mask if node.is_used(1) else None]


def _random_dropout(node: OnnxNode) -> list[Any]:
    dtype = node.dtype()
    ratio = R.astype(node[1], "float64") if node.has(1) else number(0.5, "float64")
    uniform = generate(node, "evenly", node.dims(), 0.0, 1.0, "float64")
    mask = node.emit(R.greater_equal(uniform, ratio))
    keep_ratio = R.subtract(number(1.0, "float64"), ratio)
    scale = R.where(
        R.greater(keep_ratio, number(0.0, "float64")), keep_ratio, number(1.0, "float64")
    )
    scaled = R.multiply(node[0], R.astype(R.divide(number(1.0, "float64"), scale), dtype))
    return [R.where(mask, scaled, like(node, 0)), mask]


@onnx_op("ImageDecoder")
def image_decoder(node: OnnxNode) -> Expr:
    info = TensorStructInfo(None, "uint8", 3)
    pixels = StringImm(node.attr("pixel_format"))
    return R.call_pure_packed("picture.decoded", node[0], pixels, sinfo_args=info)
