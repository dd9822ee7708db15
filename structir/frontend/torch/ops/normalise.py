"""Mappings of softmax and of batch, layer, group, instance, RMS and weight normalization."""

from __future__ import annotations

from typing import Any

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, number, reshape_to
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@torch_op("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax", "special_softmax")
def softmax(node: FxNode) -> Expr:
    op = R.nn.log_softmax if "log_softmax" in node.spec.target else R.nn.softmax
    x = cast(node["self"], node.out_dtype())
    if not node.rank():
        return (
            R.multiply(x, number(0, node.out_dtype())) if op is R.nn.log_softmax else R.ones_like(x)
        )
    result = op(x, axis=node.axis())
    if "_safe_softmax" in node.spec.target:
        return R.where(R.isnan(node.emit(result)), number(0.0, node.out_dtype()), result)
    return result


def _ones(sizes: tuple[Dim, ...], dtype: str, value: float = 1.0) -> Expr:
    return R.full(ShapeExpr(sizes), number(value, dtype))


def _affine(node: FxNode, sizes: tuple[Dim, ...], dtype: str) -> tuple[Expr, Expr]:
    """Returns the weight and the bias; an absent weight is ones, an absent bias zeros."""
    weight, bias = node.get("weight"), node.get("bias")
    return (
        node.fold(_ones(sizes, dtype)) if weight is None else cast(weight, dtype),
        node.fold(_ones(sizes, dtype, 0.0)) if bias is None else cast(bias, dtype),
    )


@torch_op("layer_norm")
def layer_norm(node: FxNode) -> Expr:
    rank, normalized_rank = node.rank("input"), len(node.sizes("normalized_shape"))
    axes = list(range(rank - normalized_rank, rank))
    weight, bias = _affine(node, node.dims("input")[rank - normalized_rank :], node.dtype("input"))
    return R.nn.layer_norm(node["input"], weight, bias, axes, epsilon=float(node.arg("eps", 1e-5)))


@torch_op("native_layer_norm")
def native_layer_norm(node: FxNode) -> list[Expr]:
    x, first_axis = node["input"], node.rank("input") - len(node.sizes("normalized_shape"))
    axes_list = list(range(first_axis, node.rank("input")))
    mean = node.emit(R.mean(x, axis=axes_list, keepdims=True))
    variance = R.variance(x, axis=axes_list, keepdims=True)
    epsilon = number(float(node.arg("eps", 1e-5)), node.dtype("input"))
    return [layer_norm(node), mean, R.rsqrt(R.add(variance, epsilon))]


@torch_op("rms_norm")
def rms_norm(node: FxNode) -> Expr:
    rank, normalized_rank = node.rank("input"), len(node.sizes("normalized_shape"))
    axes = list(range(rank - normalized_rank, rank))
    dtype = node.dtype("input")
    epsilon_arg = node.arg("eps", None)
    epsilons = {"float64": 2.220446049250313e-16, "float16": 0.0009765625, "bfloat16": 0.0078125}
    epsilon = (
        epsilons.get(dtype, 1.1920928955078125e-07) if epsilon_arg is None else float(epsilon_arg)
    )
    weight, _ = _affine(node, node.dims("input")[rank - normalized_rank :], dtype)
    return R.nn.rms_norm(node["input"], weight, axes, epsilon=epsilon)


def _batch_norm(node: FxNode, mean: Expr, variance: Expr) -> Expr:
    dtype = node.dtype("input")
    weight, bias = _affine(node, (node.dims("input")[1],), dtype)
    result = node.emit(
        R.nn.batch_norm(
            node["input"],
            weight,
            bias,
            cast(mean, dtype),
            cast(variance, dtype),
            axis=1,
            epsilon=float(node.arg("eps", 1e-5)),
            training=False,
        )
    )
    return result[0]


@torch_op("batch_norm")
def batch_norm(node: FxNode) -> Expr:
    if node.flag("training"):
        return _normalize_by_batch(node)[0]
    return _batch_norm(node, node["running_mean"], node["running_var"])


@torch_op("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_at_inference(node: FxNode) -> list[Expr]:
    empty = _ones((0,), node.dtype("input"), 0.0)
    result = _batch_norm(node, node["running_mean"], node["running_var"])
    return [result, *[empty] * (len(node.spec.outputs) - 1)]


@torch_op("_native_batch_norm_legit.no_stats")
def batch_norm_by_batch(node: FxNode) -> list[Expr]:
    return _normalize_by_batch(node)


def _normalize_by_batch(node: FxNode) -> list[Expr]:
    """Normalizes with the mean and variance of the batch, without running statistics."""
    if node.get("running_mean") is not None:
        node.fail(
            "batch_norm in training mode is not supported",
            "call `model.eval()` before torch.export.export",
        )
    rank = node.rank("input")
    axes = [0, *range(2, rank)]
    mean = node.emit(R.mean(node["input"], axis=axes))
    variance = node.emit(R.variance(node["input"], axis=axes))
    epsilon = number(float(node.arg("eps", 1e-5)), node.dtype("input"))
    return [_batch_norm(node, mean, variance), mean, R.rsqrt(R.add(variance, epsilon))]


@torch_op("instance_norm")
def instance_norm(node: FxNode) -> Expr:
    if not node.flag("use_input_stats", True):
        return _batch_norm(node, node["running_mean"], node["running_var"])
    axes = list(range(2, node.rank("input")))
    weight, bias = _affine(node, (node.dims("input")[1],), node.dtype("input"))
    return _by_groups(node, node["input"], axes, weight, bias)


def _by_groups(node: FxNode, x: Expr, axes: list[int], weight: Expr, bias: Expr) -> Expr:
    mean = node.emit(R.mean(x, axis=axes, keepdims=True))
    centred = node.emit(R.subtract(x, mean))
    variance = R.mean(R.multiply(centred, centred), axis=axes, keepdims=True)
    epsilon = number(float(node.arg("eps", 1e-5)), node.dtype("input"))
    normalized = R.divide(centred, R.sqrt(R.add(variance, epsilon)))
    sizes = node.dims("input")
    normalized = reshape_to(normalized, sizes)
    trailing = [1] * (len(sizes) - 2)
    weight, bias = (reshape_to(v, (sizes[1], *trailing)) for v in (weight, bias))
    return R.add(R.multiply(normalized, weight), bias)


@torch_op("group_norm", "native_group_norm")
def group_norm(node: FxNode) -> Any:
    sizes = node.dims("input")
    groups = node.plain("num_groups" if "num_groups" in node.spec.args else "group")
    weight, bias = _affine(node, (sizes[1],), node.dtype("input"))
    group_size = node.whole(sizes[1]) // groups
    x = node.emit(reshape_to(node["input"], (sizes[0], groups, group_size, *sizes[2:])))
    axes = list(range(2, len(sizes) + 1))
    result = _by_groups(node, x, axes, weight, bias)
    if "native" not in node.spec.target:
        return result
    epsilon = number(float(node.arg("eps")), node.dtype("input"))
    return [result, R.mean(x, axis=axes), R.rsqrt(R.add(R.variance(x, axis=axes), epsilon))]


@torch_op("normalize")
def normalize(node: FxNode) -> Expr:
    x, axis = node["input"], node.axis("dim", 1, of="input")
    epsilon = as_tensor(node.arg("eps", 1e-12), node.dtype("input"))
    length = R.sqrt(R.sum(R.multiply(x, x), axis=[axis], keepdims=True))
    return R.divide(x, R.maximum(length, epsilon))


@torch_op("_weight_norm", "_weight_norm_interface")
def weight_norm(node: FxNode) -> Any:
    """Builds weight_norm: scales the slices of `v` along one axis to the norms `g`."""
    v, g = node["v"], node["g"]
    slice_axis = node.axis("dim", 0, of="v")
    axes = [k for k in range(node.rank("v")) if k != slice_axis]
    length = node.emit(R.sqrt(R.sum(R.multiply(v, v), axis=axes, keepdims=True)))
    result = R.multiply(v, R.divide(g, length))
    return [result, length] if len(node.spec.outputs) > 1 else result
