"""Mappings of softmax and of batch, layer, instance, RMS and local response normalization."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from structir.frontend.normalization import scale_and_shift
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.scalars import index_range, number, reshape_to
from structir.ir.expr import Constant, Expr
from structir.script import R


def _over_axis(act: Callable[[OnnxNode, Expr, int], Expr]) -> Callable[[OnnxNode], Expr]:
    """Returns a mapping over one axis; before opset 13, the trailing axes from `axis` on are
    flattened."""

    def build(node: OnnxNode) -> Expr:
        if node.version >= 13:
            return act(node, node[0], node.axis_of_any_rank(node.attr("axis", -1)))
        rank = node.rank()
        axis, sizes = node.axis("axis", 1), node.dims()
        if axis == rank - 1:
            return act(node, node[0], axis)
        flat = reshape_to(node[0], (prod(sizes[:axis]), prod(sizes[axis:])))
        return reshape_to(act(node, flat, 1), sizes)

    return build


onnx_op("Softmax")(_over_axis(lambda node, x, axis: R.nn.softmax(x, axis=axis)))
onnx_op("LogSoftmax")(_over_axis(lambda node, x, axis: R.nn.log_softmax(x, axis=axis)))


@onnx_op("Hardmax")
@_over_axis
def hardmax(node: OnnxNode, x: Expr, axis: int) -> Expr:
    node.dims()  # raises for an unknown shape
    x = node.emit(x)
    first = R.expand_dims(R.argmax(x, axis=axis), [axis])
    sizes = node.tensor_info(x).dims
    trailing = [1] * (len(sizes) - 1 - axis)
    indices = index_range(sizes[axis])
    is_max = R.equal(reshape_to(indices, (sizes[axis], *trailing)), first)
    return R.astype(is_max, node.dtype())


def _by_channel(node: OnnxNode, index: int) -> Expr:
    """Returns an operand with one element per channel, reshaped to broadcast with operand 0."""
    return reshape_to(node[index], (node.dims(index)[0], *[1] * (node.rank() - 2)))


@onnx_op("BatchNormalization")
def batch_normalization(node: OnnxNode) -> list[Any]:
    if node.rank() < 2:
        node.fail(f"expected an operand of rank 2 or more, found rank {node.rank()}")
    if node.flag("training_mode") or (node.version < 14 and node.is_used(1) and node.version >= 7):
        return _normalize_in_training(node)
    if node.version >= 14 and node.dtype() != node.dtype(3):
        return [_normalize(node, node[3], node[4])]
    affine = [node[k] for k in range(1, 5)]
    if all(isinstance(each, Constant) for each in affine):
        fold, epsilon = node.importer.fold_constant, float(node.attr("epsilon"))
        return [scale_and_shift(node[0], affine, epsilon, node.dtype(), node.rank(), fold)]
    result = R.nn.batch_norm(
        *[node[k] for k in range(5)], axis=1, epsilon=node.attr("epsilon"), training=False
    )
    return [node.emit(result)[0]]


def _normalize(node: OnnxNode, mean: Expr, variance: Expr) -> Expr:
    dtype, trailing = node.dtype(), [1] * (node.rank() - 2)
    mean, variance = (
        R.astype(reshape_to(v, (node.dims(1)[0], *trailing)), dtype) for v in (mean, variance)
    )
    deviation = R.sqrt(R.add(variance, like(node, node.attr("epsilon"))))
    scale = R.astype(_by_channel(node, 1), dtype)
    shift = R.astype(_by_channel(node, 2), dtype)
    return R.add(R.multiply(scale, R.divide(R.subtract(node[0], mean), deviation)), shift)


def _normalize_in_training(node: OnnxNode) -> list[Any]:
    axes = [0, *range(2, node.rank())]
    mean = node.emit(R.mean(node[0], axis=axes))
    variance = node.emit(R.variance(node[0], axis=axes))
    momentum = node.attr("momentum")

    def update_average(old: Expr, new: Expr) -> Expr:
        kept_part = R.multiply(old, like(node, momentum))
        return R.add(kept_part, R.multiply(new, like(node, 1 - momentum)))

    return [
        _normalize(node, mean, variance),
        update_average(node[3], mean),
        update_average(node[4], variance),
    ]


@onnx_op("InstanceNormalization")
def instance_normalization(node: OnnxNode) -> Expr:
    axes = list(range(2, node.rank()))
    mean = node.emit(R.mean(node[0], axis=axes, keepdims=True))
    centred = node.emit(R.subtract(node[0], mean))
    variance = R.mean(R.multiply(centred, centred), axis=axes, keepdims=True)
    deviation = R.sqrt(R.add(variance, like(node, node.attr("epsilon"))))
    scaled = R.multiply(_by_channel(node, 1), R.divide(centred, deviation))
    return R.add(scaled, _by_channel(node, 2))


@onnx_op("LayerNormalization")
def layer_normalization(node: OnnxNode) -> list[Any]:
    axis = node.axis("axis", -1)
    axes = list(range(axis, node.rank()))
    if not node.is_used(1) and not node.is_used(2) and node.dims(1) == node.dims()[axis:]:
        shift = node.get(2)
        shift = R.zeros_like(node[1]) if shift is None else shift
        return [R.nn.layer_norm(node[0], node[1], shift, axes, epsilon=node.attr("epsilon"))]
    mean = node.emit(R.mean(node[0], axis=axes, keepdims=True))
    centred = node.emit(R.subtract(node[0], mean))
    variance = R.mean(R.multiply(centred, centred), axis=axes, keepdims=True)
    inverse_deviation = node.emit(
        R.divide(like(node, 1.0), R.sqrt(R.add(variance, like(node, node.attr("epsilon")))))
    )
    result = R.multiply(R.multiply(centred, inverse_deviation), node[1])
    return [R.add(result, node[2]) if node.has(2) else result, mean, inverse_deviation]


@onnx_op("RMSNormalization")
def rms_normalization(node: OnnxNode) -> Expr:
    axis = node.axis("axis", -1)
    axes = list(range(axis, node.rank()))
    dtype, result_dtype = node.dtype_attr("stash_type", "float32") or "float32", node.dtype(1)
    dtype = "float64" if node.dtype() == "float64" else dtype
    x = node[0] if node.dtype() == dtype else node.emit(R.astype(node[0], dtype))
    mean = R.mean(R.multiply(x, x), axis=axes, keepdims=True)
    result = R.divide(x, R.sqrt(R.add(mean, number(node.attr("epsilon"), dtype))))
    result = result if dtype == result_dtype else R.astype(result, result_dtype)
    return R.multiply(result, node[1])


@onnx_op("LpNormalization")
def lp_normalization(node: OnnxNode) -> Expr:
    axis, p = node.axis("axis", -1), node.choice("p", (1, 2))
    x = node[0]
    if p == 1:
        norm = R.sum(R.abs(x), axis=axis, keepdims=True)
    else:
        norm = R.sqrt(R.sum(R.multiply(x, x), axis=axis, keepdims=True))
    norm = node.emit(norm)
    zero = R.equal(norm, like(node, 0.0))
    return R.where(zero, like(node, 0.0), R.divide(x, R.where(zero, like(node, 1.0), norm)))


@onnx_op("LRN")
def local_response_normalization(node: OnnxNode) -> Expr:
    size = node.attr("size")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    x, sizes = node[0], node.dims()
    squares = reshape_to(R.multiply(x, x), (sizes[0], 1, sizes[1], prod(sizes[2:])))
    mean = R.nn.avg_pool2d(
        squares,
        pool_size=[size, 1],
        strides=[1, 1],
        padding=[before, 0, after, 0],
        count_include_pad=True,
    )
    base = R.add(like(node, node.attr("bias")), R.multiply(like(node, node.attr("alpha")), mean))
    return R.divide(x, reshape_to(R.power(base, like(node, node.attr("beta"))), sizes))
