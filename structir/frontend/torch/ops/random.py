"""Mappings of random ops: a counter-based generator, with a stream per node."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.sampling import sampled, sampled_for
from structir.frontend.scalars import index_range, number, reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.create import identity
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir import dims
from structir.ir.expr import Expr, ShapeExpr
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8, "float32": 24}


def _samples(node: FxNode, name: str, sizes: Any) -> Expr:
    """Returns samples of the standard distribution in float64."""
    return node.emit(sampled(name, sizes, 0.0, 1.0, node.host.seed, node.host.built))


def _uniform(node: FxNode) -> Expr:
    """Returns samples in [0, 1) in the dtype of the result: no sample rounds to 1."""
    dtype, x = node.out_dtype(), _samples(node, "uniform", node.out_dims())
    if dtype not in SIGNIFICANT_BITS:
        return cast(x, dtype)
    scale = number(2.0 ** SIGNIFICANT_BITS[dtype], "float64")
    return cast(R.divide(R.floor(R.multiply(x, scale)), scale), dtype)


@torch_op("rand", "rand_like", "uniform")
def uniform(node: FxNode) -> Expr:
    dtype, low, high = node.out_dtype(), node.arg("from", 0.0), node.arg("to", 1.0)
    if (low, high) == (0.0, 1.0):
        return _uniform(node)
    return R.add(R.multiply(_uniform(node), number(high - low, dtype)), number(low, dtype))


@torch_op("randn", "randn_like", "normal", "normal_functional")
def normal(node: FxNode) -> Expr:
    """Builds normal samples; mean and standard deviation are numbers or tensors."""
    dtype, x = node.out_dtype(), _samples(node, "normal", node.out_dims())
    mean, deviation = (
        as_tensor(node.arg(name, default), dtype) for name, default in (("mean", 0.0), ("std", 1.0))
    )
    return R.add(R.multiply(cast(x, dtype), deviation), mean)


@torch_op("randint", "randint_like")
def integers(node: FxNode) -> Expr:
    low, high = node.size("low", 0), node.size("high")
    x = _samples(node, "uniform", node.out_dims())
    offset = R.floor(R.multiply(x, as_tensor(high - low, "float64")))
    return cast(R.add(cast(offset, "int64"), as_tensor(low, "int64")), node.out_dtype())


@torch_op("randperm")
def permutation(node: FxNode) -> Expr:
    return cast(R.argsort(_samples(node, "uniform", node.out_dims())), node.out_dtype())


@torch_op("bernoulli")
def bernoulli(node: FxNode) -> Expr:
    default = 0.5 if node.spec.target.endswith(".float") else node["self"]  # in place
    probability = as_tensor(node.arg("p", default), "float64")
    return cast(R.less(_samples(node, "uniform", node.out_dims()), probability), node.out_dtype())


@torch_op("exponential")
def exponential(node: FxNode) -> Expr:
    """Builds samples of the exponential distribution, all above 0."""
    uniform = _samples(node, "uniform", node.out_dims())  # in [0, 1)
    rate = number(float(node.arg("lambd", 1.0)), "float64")
    times = R.divide(R.negative(R.log(R.subtract(number(1.0, "float64"), uniform))), rate)
    return cast(R.maximum(times, number(1e-30, "float64")), node.out_dtype())


@torch_op("cauchy")
def cauchy(node: FxNode) -> Expr:
    """Builds samples of the Cauchy distribution by its inverse: median + sigma * tan(pi * (u -
    1/2))."""
    turn = R.subtract(_samples(node, "uniform", node.out_dims()), number(0.5, "float64"))
    value = R.tan(R.multiply(turn, number(math.pi, "float64")))
    sigma, median = (
        number(float(node.arg(name, default)), "float64")
        for name, default in (("sigma", 1.0), ("median", 0.0))
    )
    return cast(R.add(R.multiply(value, sigma), median), node.out_dtype())


@torch_op("log_normal")
def log_normal(node: FxNode) -> Expr:
    """Builds exponentials of normal samples."""
    mean, deviation = (
        number(float(node.arg(name, default)), "float64")
        for name, default in (("mean", 1.0), ("std", 2.0))
    )
    x = _samples(node, "normal", node.out_dims())
    return cast(R.exp(R.add(R.multiply(x, deviation), mean)), node.out_dtype())


@torch_op("geometric")
def geometric(node: FxNode) -> Expr:
    """Builds the number of trials up to the first success, at least 1, by the inverse
    distribution."""
    uniform = _samples(node, "uniform", node.out_dims())  # in [0, 1)
    logarithm = R.log(R.subtract(number(1.0, "float64"), uniform))
    scale = number(math.log1p(-float(node.arg("p"))), "float64")
    trials = R.maximum(R.ceil(R.divide(logarithm, scale)), number(1.0, "float64"))
    return cast(trials, node.out_dtype())


def _samples_for(node: FxNode, name: str, *operands: Expr) -> Expr:
    """Returns a sample for each element of the operands, which broadcast, in the result's dtype."""
    sizes, dtype = node.out_dims(), node.out_dtype()
    values = [node.emit(R.broadcast_to(cast(x, "float64"), ShapeExpr(sizes))) for x in operands]
    info = TensorStructInfo(sizes, "float64")
    samples = sampled_for(name, values, info, node.host.seed, node.host.built)
    return node.emit(cast(node.emit(samples), dtype))


torch_op("poisson")(lambda node: _samples_for(node, "poisson", node["self"]))
torch_op("binomial")(lambda node: _samples_for(node, "binomial", node["count"], node["prob"]))
torch_op("_standard_gamma")(lambda node: _samples_for(node, "gamma", node["self"]))


@torch_op("_sample_dirichlet")
def dirichlet(node: FxNode) -> Expr:
    """Builds Dirichlet samples along the last axis: gamma samples over their sum."""
    samples = _samples_for(node, "gamma", node["self"])
    return R.divide(samples, R.sum(samples, axis=[node.rank() - 1], keepdims=True))


@torch_op("multinomial")
def multinomial(node: FxNode) -> Expr:
    """Builds multinomial: by the inverse distribution, or without replacement by exponential
    races, whose smallest times are the samples."""
    weights, count = R.astype(node["self"], "float64"), node.size("num_samples")
    rows, classes = (1, *node.dims())[-2:]
    weights = node.emit(reshape_to(weights, (rows, classes)))
    if node.flag("replacement"):
        uniform = reshape_to(_samples(node, "uniform", (rows, count)), (rows * count, 1))
        row = R.floor_divide(index_range(rows * count), as_tensor(count, "int64"))
        indices = reshape_to(row, (rows * count, 1))
        picks = R.multinomial_from_uniform(weights, uniform, indices, dtype="int64")
        return reshape_to(picks, node.out_dims())
    if not isinstance(count, int) or dims.equal(count, 0):
        node.fail(f"num_samples: expected a constant of at least 1, found {dims.text(count)}")
    one = number(1.0, "float64")
    times = R.negative(R.log(R.subtract(one, _samples(node, "uniform", (rows, classes)))))
    rates = R.divide(weights, R.maximum(times, number(1e-300, "float64")))
    picks = R.topk(rates, k=count, axis=1, ret_type="indices", dtype="int64")
    return reshape_to(picks, node.out_dims())


@torch_op("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def dropout(node: FxNode) -> Any:
    """Builds dropout: the identity at inference, a random mask in training."""
    x, rate = identity(node), float(node.arg("p", 0.5))
    name = "train" if "train" in node.spec.args else "training"
    is_training = node.flag(name, ".native_dropout" in node.spec.target) and rate != 0
    if is_training and "alpha" in node.spec.target:
        node.fail(
            "alpha dropout in training mode is not supported",
            "call `model.eval()` before torch.export.export",
        )
    mask: Expr = R.full_like(x, number(True, "bool"), dtype="bool")
    if is_training:
        sizes = node.dims_of(x)
        if ".feature_dropout" in node.spec.target:
            sizes = (*sizes[:2], *[1] * len(sizes[2:]))
        samples = _samples(node, "uniform", sizes)
        mask = node.emit(R.greater_equal(samples, number(rate, "float64")))
        dtype = node.dtype_of(x)
        scale = number(0.0 if rate == 1 else 1 / (1 - rate), dtype)
        x = R.where(mask, R.multiply(x, scale), number(0, dtype))
    return [x, mask] if len(node.spec.outputs) > 1 else x
