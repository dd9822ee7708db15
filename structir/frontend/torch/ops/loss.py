"""Mappings of loss functions."""

from __future__ import annotations

from typing import Any

from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.broadcast import reduce_loss
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr
from structir.script import R

REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def _pair(node: FxNode) -> tuple[Expr, Expr]:
    dtype = node.out_dtype()
    return node.operand("self", dtype), node.operand("target", dtype)


def _reduce(node: FxNode, each: Expr) -> Expr:
    return reduce_loss(each, node.plain("reduction", 1))


@torch_op("mse_loss")
def squared_error(node: FxNode) -> Expr:
    lhs, rhs = _pair(node)
    return _reduce(node, R.square(R.subtract(lhs, rhs)))


@torch_op("l1_loss")
def absolute_error(node: FxNode) -> Expr:
    lhs, rhs = _pair(node)
    return _reduce(node, R.abs(R.subtract(lhs, rhs)))


@torch_op("smooth_l1_loss", "huber_loss")
def smooth_absolute_error(node: FxNode) -> Expr:
    """Builds the Huber losses: quadratic below a threshold, linear above it."""
    lhs, rhs = _pair(node)
    smooth, dtype = ".smooth" in node.spec.target, node.out_dtype()
    threshold = float(node.arg("beta" if smooth else "delta", 1.0))
    distance = node.emit(R.abs(R.subtract(lhs, rhs)))
    if threshold == 0.0:
        return _reduce(node, distance)
    half, far_offset = number(0.5, dtype), number(0.5 * threshold, dtype)
    near_loss = R.multiply(half, R.square(distance))
    if smooth:
        near_loss, far_loss = (
            R.divide(near_loss, number(threshold, dtype)),
            R.subtract(distance, far_offset),
        )
    else:
        far_loss = R.multiply(number(threshold, dtype), R.subtract(distance, far_offset))
    return _reduce(node, R.where(R.less(distance, number(threshold, dtype)), near_loss, far_loss))


@torch_op("binary_cross_entropy")
def binary_cross_entropy(node: FxNode) -> Expr:
    p, y = _pair(node)
    log_floor, one = number(-100.0, node.out_dtype()), number(1.0, node.out_dtype())
    positive_term = R.multiply(y, R.maximum(R.log(p), log_floor))
    negative_term = R.multiply(R.subtract(one, y), R.maximum(R.log(R.subtract(one, p)), log_floor))
    return _reduce(node, _apply_weight(node, R.negative(R.add(positive_term, negative_term))))


def _apply_weight(node: FxNode, each: Expr) -> Expr:
    weight = node.get("weight")
    return each if weight is None else R.multiply(each, weight)


@torch_op("binary_cross_entropy_with_logits")
def binary_cross_entropy_of_logits(node: FxNode) -> Expr:
    x, y = _pair(node)
    zero, one = number(0.0, node.out_dtype()), number(1.0, node.out_dtype())
    log_term = R.log_add_exp(R.negative(x), zero)
    positive = node.get("pos_weight")
    if positive is not None:
        factor = R.add(one, R.multiply(R.subtract(positive, one), y))
        log_term = R.multiply(factor, log_term)
    each = R.add(R.multiply(R.subtract(one, y), x), log_term)
    return _reduce(node, _apply_weight(node, each))


@torch_op("kl_div")
def divergence(node: FxNode) -> Expr:
    x, y = _pair(node)
    zero = number(0.0, node.out_dtype())
    if node.flag("log_target"):
        return _reduce(node, R.multiply(R.exp(y), R.subtract(y, x)))
    entropy = R.where(R.greater(y, zero), R.multiply(y, R.log(y)), zero)
    return _reduce(node, R.subtract(entropy, R.multiply(y, x)))


def _likelihood(node: FxNode, scores: Expr) -> Expr:
    weights = node.get("weight")
    return R.nn.nll_loss(
        scores,
        cast(node["target"], "int64"),
        *([] if weights is None else [weights]),
        reduction=REDUCTIONS[node.plain("reduction", 1)],
        ignore_index=node.plain("ignore_index", -100),
    )


torch_op("nll_loss", "nll_loss2d", "nll_loss_nd")(lambda node: _likelihood(node, node["self"]))


@torch_op("nll_loss_forward", "nll_loss2d_forward")
def negative_likelihood_and_weight(node: FxNode) -> list[Any]:
    return [_likelihood(node, node["self"]), _total_weight(node)]


def _total_weight(node: FxNode) -> Expr:
    """Returns the sum of the weights of the targets that count, or 0 without a reduction."""
    dtype, target = node.out_dtype(1), node.emit(cast(node["target"], "int64"))
    zero, ignored = number(0.0, dtype), node.plain("ignore_index", -100)
    if not node.plain("reduction", 1):
        return zero
    is_counted = node.emit(R.not_equal(target, number(ignored, "int64")))
    weights: Expr = number(1.0, dtype)
    if node.get("weight") is not None:
        classes = R.where(is_counted, target, number(0, "int64"))
        weights = R.take(node["weight"], node.emit(classes), axis=0)
    return R.sum(R.where(is_counted, weights, zero))


@torch_op("cross_entropy_loss")
def cross_entropy(node: FxNode) -> Expr:
    if float(node.arg("label_smoothing", 0.0)) != 0.0:
        node.fail(f"label_smoothing: expected 0.0, found {node.arg('label_smoothing')}")
    axis = 1 if node.rank() > 1 else 0
    scores = R.nn.log_softmax(node["self"], axis=axis)
    if node.rank("target") < node.rank():
        return _likelihood(node, node.emit(scores))
    if node.get("weight") is not None:
        node.fail("weight: expected None for a target of class probabilities, found a tensor")
    each = R.negative(R.sum(R.multiply(scores, node["target"]), axis=[axis]))
    reduction = node.plain("reduction", 1)
    return reduce_loss(each, reduction)
