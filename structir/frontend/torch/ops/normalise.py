"""Mappings of softmax and of batch, layer, group, instance, RMS and weight normalization."""

from __future__ import annotations

from math import prod
from typing import Any

from structir.frontend.normalization import scale_and_shift
from structir.frontend.scalars import number, reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op, updates
from structir.frontend.torch.scalars import as_tensor, cast, rounded_once, tensor_info
from structir.ir.dims import Dim
from structir.ir.dtype import NARROW_FLOATS
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R

STATISTICS = ("running_mean", "running_var")
for _op, _flag in (
    ("batch_norm", "training"),
    ("native_batch_norm", "training"),
    ("_native_batch_norm_legit", "training"),
    ("instance_norm", "use_input_stats"),
):
    updates(_op, STATISTICS, _flag)


@torch_op("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax", "special_softmax")
@rounded_once
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
@rounded_once
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
@rounded_once
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
    affine = (weight, bias, mean, variance)
    if all(isinstance(each, Constant) for each in affine):
        epsilon = float(node.arg("eps", 1e-5))
        return scale_and_shift(node["input"], affine, epsilon, dtype, node.rank("input"), node.fold)
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


torch_op("batch_norm")(lambda node: batch_norm_with_update(node)[0])


@torch_op("native_batch_norm", "_native_batch_norm_legit")
def batch_norm_with_update(node: FxNode) -> list[Expr]:
    if not node.flag("training"):
        return batch_norm_at_inference(node)
    result, mean, scale, *new_values = _normalize_by_batch(node)
    for name, value in zip(STATISTICS, new_values, strict=False):
        node.update(name, value)
    return [result, mean, scale]


@torch_op("_native_batch_norm_legit_functional")
def functional_batch_norm(node: FxNode) -> list[Expr]:
    if node.flag("training"):
        return _normalize_by_batch(node)
    return [*batch_norm_at_inference(node)[:3], node["running_mean"], node["running_var"]]


@torch_op("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm_at_inference(node: FxNode) -> list[Expr]:
    empty = _ones((0,), node.dtype("input"), 0.0)
    result = _batch_norm(node, node["running_mean"], node["running_var"])
    return [result, *[empty] * (len(node.spec.outputs) - 1)]


torch_op("_native_batch_norm_legit.no_stats")(lambda node: _normalize_by_batch(node))


def _normalize_by_batch(node: FxNode) -> list[Expr]:
    """Normalizes with the mean and variance of the batch; returns also the running statistics after
    it, if there are any."""
    axes = [0, *range(2, node.rank("input"))]
    is_tracked = node.get("running_mean") is not None
    x = cast(node["input"], node.dtype("running_mean")) if is_tracked else node["input"]
    mean = node.emit(R.mean(x, axis=axes))
    variance = node.emit(R.variance(x, axis=axes))
    epsilon = number(float(node.arg("eps", 1e-5)), tensor_info(x).dtype or "float32")
    scale = R.rsqrt(R.add(variance, epsilon))
    sizes = node.dims("input")
    updated = _running(node, mean, variance, [sizes[k] for k in axes]) if is_tracked else []
    return [_batch_norm(node, mean, variance), mean, scale, *updated]


def _running(node: FxNode, mean: Expr, variance: Expr, sizes: list[Dim]) -> list[Expr]:
    """Returns the running mean and variance after a batch, whose sample variance has the divisor
    `n - 1`."""
    count, dtype = prod(sizes), node.dtype("running_mean")
    unbiased = R.multiply(variance, as_tensor(count, dtype))
    unbiased = R.divide(unbiased, as_tensor(count - 1, dtype))
    momentum = float(node.arg("momentum", 0.1))
    return [
        R.add(
            R.multiply(node[name], number(1 - momentum, dtype)),
            R.multiply(value, number(momentum, dtype)),
        )
        for name, value in zip(STATISTICS, (mean, unbiased), strict=True)
    ]


@torch_op("instance_norm")
def instance_norm(node: FxNode) -> Expr:
    if not node.flag("use_input_stats", True):
        return _batch_norm(node, node["running_mean"], node["running_var"])
    if node.get("running_mean") is not None:
        _update_by_instances(node)
    axes = list(range(2, node.rank("input")))
    weight, bias = _affine(node, (node.dims("input")[1],), node.dtype("input"))
    return _by_groups(node, node["input"], axes, weight, bias)


def _update_by_instances(node: FxNode) -> None:
    """Updates running statistics by the means over the batch of those of each instance."""
    rank, x = node.rank("input"), cast(node["input"], node.dtype("running_mean"))
    axes = list(range(2, rank))
    mean = R.mean(R.mean(x, axis=axes), axis=[0])
    variance = R.mean(R.variance(x, axis=axes), axis=[0])
    values = _running(node, mean, variance, list(node.dims("input")[2:]))
    for name, value in zip(STATISTICS, values, strict=True):
        node.update(name, value)


def _by_groups(node: FxNode, x: Expr, axes: list[int], weight: Expr, bias: Expr) -> Expr:
    dtype = node.dtype_of(x := node.emit(x))
    exact = "float32" if dtype in NARROW_FLOATS else dtype  # squares overflow in narrow ones
    x = node.emit(cast(x, exact))
    mean = node.emit(R.mean(x, axis=axes, keepdims=True))
    centred = node.emit(R.subtract(x, mean))
    variance = R.mean(R.multiply(centred, centred), axis=axes, keepdims=True)
    epsilon = number(float(node.arg("eps", 1e-5)), exact)
    normalized = R.divide(centred, R.sqrt(R.add(variance, epsilon)))
    sizes = node.dims("input")
    normalized = cast(node.emit(reshape_to(normalized, sizes)), dtype)
    trailing = [1] * (len(sizes) - 2)
    weight, bias = (reshape_to(v, (sizes[1], *trailing)) for v in (weight, bias))
    return R.add(R.multiply(normalized, weight), bias)


@torch_op("group_norm", "native_group_norm")
@rounded_once
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
@rounded_once
def normalize(node: FxNode) -> Expr:
    x, axis = node["input"], node.axis("dim", 1, of="input")
    epsilon = as_tensor(node.arg("eps", 1e-12), node.dtype("input"))
    length = R.sqrt(R.sum(R.multiply(x, x), axis=[axis], keepdims=True))
    return R.divide(x, R.maximum(length, epsilon))


@torch_op("_weight_norm", "_weight_norm_interface")
@rounded_once
def weight_norm(node: FxNode) -> Any:
    """Builds weight_norm: scales the slices of `v` along one axis to the norms `g`."""
    v, g = node["v"], node["g"]
    slice_axis = node.axis("dim", 0, of="v")
    axes = [k for k in range(node.rank("v")) if k != slice_axis]
    length = node.emit(R.sqrt(R.sum(R.multiply(v, v), axis=axes, keepdims=True)))
    result = R.multiply(v, R.divide(g, length))
    return [result, length] if len(node.spec.outputs) > 1 else result
