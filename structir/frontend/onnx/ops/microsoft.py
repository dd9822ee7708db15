"""Mappings of ONNX Runtime's fused ops: products with activations, and normalizations of sums."""

from __future__ import annotations

from typing import Any

from structir.frontend.onnx.decompositions import build_as, build_as_one
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.microsoft_quantised import channels_first, channels_last
from structir.frontend.onnx.registry import MICROSOFT, R, onnx_op
from structir.frontend.onnx.scalars import like
from structir.ir.expr import Expr, PrimValue, ShapeExpr

# The attribute names of the parameters of activations, in order.
PARAMETER_NAMES = {
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
    "Clip": ("min", "max"),
}


def apply_activation(
    node: OnnxNode, x: Expr, name: str | None, parameters: tuple[float, ...]
) -> Expr:
    """Applies the activation that a fused node names."""
    if not name:
        return x
    if name == "Clip":
        return R.clip(x, *parameters)
    return build_as_one(
        node, name, x, **dict(zip(PARAMETER_NAMES.get(name, ()), parameters, strict=False))
    )


@onnx_op("FusedConv", domain=MICROSOFT)
def fused_conv(node: OnnxNode) -> Expr:
    result = build_as_one(node, "Conv", node[0], node[1], node.get(2))
    return _add_and_activate(node, result, 3)


@onnx_op("NhwcFusedConv", domain=MICROSOFT)
def fused_conv_of_last_channels(node: OnnxNode) -> Expr:
    result = build_as_one(node, "Conv", channels_first(node, node[0]), node[1], node.get(2))
    return _add_and_activate(node, channels_last(node, result), 3)


def _add_and_activate(node: OnnxNode, x: Expr, index: int) -> Expr:
    """Adds the operand at `index`, if present, and applies the node's activation."""
    x = R.add(x, node[index]) if node.has(index) else x
    parameters = tuple(node.attr("activation_params", None) or ())
    return apply_activation(node, x, node.attr("activation", None), parameters)


@onnx_op("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: OnnxNode) -> Expr:
    result = build_as_one(node, "Gemm", node[0], node[1], node.get(2))
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    optional = [node.attr(name, None) for name in names]
    parameters = tuple([v for v in optional if v is not None])
    return apply_activation(node, result, node.attr("activation", None), parameters)


@onnx_op("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_mat_mul(node: OnnxNode) -> Expr:
    product = R.matmul(_transpose_operand(node, 0, "A"), _transpose_operand(node, 1, "B"))
    alpha = node.attr("alpha", 1.0)
    return product if alpha == 1.0 else R.multiply(product, like(node, alpha))


def _transpose_operand(node: OnnxNode, index: int, name: str) -> Expr:
    """Returns a matrix operand transposed as `transA`, `transB`, `transBatchA` and `transBatchB`
    require."""
    order = list(range(node.rank(index)))
    if len(order) < 2:
        return node[index]
    if node.flag(f"transBatch{name}"):
        order = [*order[1:-1], 0, order[-1]]
    if node.flag(f"trans{name}"):
        order = [*order[:-2], order[-1], order[-2]]
    return node[index] if order == sorted(order) else R.permute_dims(node[index], order)


@onnx_op("FusedMatMulActivation", domain=MICROSOFT)
def fused_mat_mul_activation(node: OnnxNode) -> Expr:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    optional = [node.attr(name, None) for name in names]
    parameters = tuple([v for v in optional if v is not None])
    return apply_activation(node, fused_mat_mul(node), node.attr("activation", None), parameters)


# ---- activations


onnx_op("BiasGelu", domain=MICROSOFT)(lambda node: R.nn.gelu(R.add(node[0], node[1])))


@onnx_op("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: OnnxNode) -> Expr:
    alpha = like(node, node.attr("alpha", 1.702))
    return R.multiply(node[0], R.sigmoid(R.multiply(node[0], alpha)))


@onnx_op("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(node: OnnxNode) -> Expr:
    summed = node.emit(R.add(node[0], node[1]))
    axis = node.axis("axis", 1)
    if axis == node.rank() - 1:
        return R.nn.softmax(summed, axis=axis)
    flat = build_as_one(node, "Flatten", summed, axis=axis)
    return R.reshape(R.nn.softmax(flat, axis=1), ShapeExpr(node.dims()))


# ---- norms


def layer_norm(
    node: OnnxNode, x: Expr, scale: Expr, shift: Expr | None, epsilon: float
) -> list[Any]:
    """Returns layer normalization over the last axis; then the mean and the inverse standard
    deviation if they are outputs."""
    result = build_as(node, "LayerNormalization", x, scale, shift, epsilon=epsilon, axis=-1)
    return list(result) if isinstance(result, list) else [result]


def root_mean_norm(node: OnnxNode, x: Expr, scale: Expr, axis: int, epsilon: float) -> list[Any]:
    """Returns RMS normalization over the axes from `axis` on, and the inverse root mean square."""
    axes = list(range(axis, node.tensor_info(x).ndim or 0))
    mean = R.mean(R.multiply(x, x), axis=axes, keepdims=True)
    root = R.sqrt(R.add(mean, like(node, epsilon)))
    inverse_rms = node.emit(R.divide(like(node, 1.0), root))
    return [R.multiply(R.multiply(x, inverse_rms), scale), inverse_rms]


@onnx_op("SimplifiedLayerNormalization")
@onnx_op("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node: OnnxNode) -> list[Any]:
    axis = node.axis("axis", -1)
    return root_mean_norm(node, node[0], node[1], axis, node.attr("epsilon", 1e-5))


@onnx_op("LayerNormalization", domain=MICROSOFT)
def layer_normalization(node: OnnxNode) -> Any:
    return build_as(node, "LayerNormalization", *[node.get(k) for k in range(len(node.values))])


@onnx_op("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: OnnxNode) -> list[Any]:
    total = _sum(node, 4)
    result = layer_norm(node, total, node[2], node.get(3), node.attr("epsilon", 1e-12))
    return [*result, *[None] * (3 - len(result)), total]


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: OnnxNode) -> list[Any]:
    total = _sum(node, 3)
    axis = node.rank() - 1
    result, inverse_rms = root_mean_norm(node, total, node[2], axis, node.attr("epsilon", 1e-5))
    return [result, None, inverse_rms, total]


def _sum(node: OnnxNode, bias: int) -> Expr:
    total = R.add(node[0], node[1])
    return node.emit(R.add(total, node[bias]) if node.has(bias) else total)


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: OnnxNode) -> list[Any]:
    batch, length = node.dims()
    total = R.take(node[2], node[0], axis=0)
    if node.has(8):
        total = R.add(total, R.take(node[3], node[8], axis=0))
    else:
        total = R.add(total, R.strided_slice(node[3], [0], (0,), (length,)))
    if node.has(1):
        total = R.add(total, R.take(node[4], node[1], axis=0))
    total = node.emit(total)
    epsilon = node.attr("epsilon", 1e-12)
    result = R.nn.layer_norm(total, node[5], node[6], [2], epsilon=epsilon)
    if node.has(7):
        lengths = R.sum(R.astype(node[7], "int32"), axis=[1])
    else:
        lengths = R.zeros(ShapeExpr((batch,)), "int32")
    return [result, lengths, total]


@onnx_op("Trilu", domain=MICROSOFT)
def trilu(node: OnnxNode) -> Expr:
    return build_as_one(node, "Trilu", *[node.get(k) for k in range(len(node.values))])


@onnx_op("CDist", domain=MICROSOFT)
def distances(node: OnnxNode) -> Expr:
    """Builds the distance of each row of one matrix from each row of another one."""
    metric = node.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        node.fail(f"metric: expected euclidean or sqeuclidean, found {metric}")
    rows, columns = R.expand_dims(node[0], [1]), R.expand_dims(node[1], [0])
    difference = node.emit(R.subtract(rows, columns))
    squares = R.sum(R.multiply(difference, difference), axis=[2])
    return R.sqrt(squares) if metric == "euclidean" else squares


@onnx_op("GridSample", domain=MICROSOFT)
def grid_sample(node: OnnxNode) -> Expr:
    """Builds the op that ONNX took over in opset 16."""
    mode = node.attr("mode", "bilinear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return build_as_one(node, "GridSample", node[0], node[1], mode=mode)


@onnx_op("Unique", domain=MICROSOFT)
def unique(node: OnnxNode) -> list[Any]:
    """Builds the distinct elements in the order of their first occurrence, the index of each
    element among them, and their counts."""
    elements, _, index, counts = build_as(node, "Unique", node[0], sorted=0)
    return [elements, index, counts]


@onnx_op("Inverse", domain=MICROSOFT)
def inverse(node: OnnxNode) -> Expr:
    """Builds the inverse of each matrix, as the solution of a linear system."""
    size = PrimValue(node.dims()[-1])
    identity = node.emit(R.eye(size, size, PrimValue(0), dtype=node.dtype()))
    return R.linalg.solve(node[0], R.broadcast_to(identity, ShapeExpr(node.dims())))
