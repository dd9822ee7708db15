"""Mappings of element-wise ops of one operand, including activations."""

from __future__ import annotations

import math

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import direct, onnx_op
from structir.frontend.onnx.scalars import like, scalar
from structir.frontend.onnx.shape_checks import broadcast_one_way, known_shape
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

SAME_NAMES = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Round Sigmoid Sign
Sin Sinh Sqrt Tan Tanh
"""
direct({name: getattr(R, name.lower()) for name in SAME_NAMES.split()})
direct(
    {
        "BitwiseNot": R.bitwise_not,
        "Neg": R.negative,
        "Not": R.logical_not,
        "Relu": R.nn.relu,
    }
)


onnx_op("Identity")(lambda node: node.values[0])
onnx_op("Reciprocal")(lambda node: R.divide(like(node, 1.0), node[0]))


@onnx_op("IsInf")
def is_inf(node: OnnxNode) -> Expr:
    x, infinite = node[0], R.isinf(node[0])
    zero = like(node, 0.0)
    if not node.flag("detect_negative", 1):
        infinite = R.logical_and(infinite, R.greater(x, zero))
    if not node.flag("detect_positive", 1):
        infinite = R.logical_and(infinite, R.less(x, zero))
    return infinite


onnx_op("LeakyRelu")(lambda node: R.nn.leakyrelu(node[0], alpha=node.attr("alpha")))


@onnx_op("PRelu")
def p_relu(node: OnnxNode) -> Expr:
    x, slope = node[0], node[1]
    if node.version < 7 and node.rank(1) == 1 and node.rank() > 2:  # one slope per channel
        slope = R.reshape(slope, ShapeExpr((*node.dims(1), *[1] * (node.rank() - 2))))
    elif node.version >= 7:
        slope = broadcast_one_way(node, 1, known_shape(node, 0))
    return R.where(R.less(x, like(node, 0)), R.multiply(x, slope), x)


onnx_op("Elu")(lambda node: _elu(node, node.attr("alpha"), 1.0))


@onnx_op("Selu")
def selu(node: OnnxNode) -> Expr:
    scaled = _elu(node, node.attr("alpha"), 1.0)
    return R.multiply(scaled, like(node, node.attr("gamma")))


@onnx_op("Celu")
def celu(node: OnnxNode) -> Expr:
    alpha = node.attr("alpha")
    return _elu(node, alpha, alpha)


def _elu(node: OnnxNode, alpha: float, over: float) -> Expr:
    """Returns alpha * (exp(x / over) - 1) where x is negative, x elsewhere."""
    x = node[0]
    inner = x if over == 1.0 else R.divide(x, like(node, over))
    negative = R.multiply(like(node, alpha), R.subtract(R.exp(inner), like(node, 1.0)))
    return R.where(R.less(x, like(node, 0.0)), negative, x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(node: OnnxNode) -> Expr:
    x = node[0]
    return R.where(R.greater(x, like(node, node.attr("alpha"))), x, like(node, 0.0))


@onnx_op("Shrink")
def shrink(node: OnnxNode) -> Expr:
    x, bias, limit = node[0], node.attr("bias"), node.attr("lambd")
    low = R.less(x, like(node, -limit))
    high = R.greater(x, like(node, limit))
    above = R.where(high, R.subtract(x, like(node, bias)), like(node, 0.0))
    return R.where(low, R.add(x, like(node, bias)), above)


@onnx_op("Softplus")
def softplus(node: OnnxNode) -> Expr:
    return R.log_add_exp(node[0], like(node, 0.0))


@onnx_op("Softsign")
def softsign(node: OnnxNode) -> Expr:
    x = node[0]
    return R.divide(x, R.add(like(node, 1.0), R.abs(x)))


onnx_op("Mish")(lambda node: R.multiply(node[0], R.tanh(softplus(node))))
onnx_op("HardSigmoid")(lambda node: _hard_sigmoid(node, node.attr("alpha"), node.attr("beta")))
onnx_op("HardSwish")(lambda node: R.multiply(node[0], _hard_sigmoid(node, 1 / 6, 0.5)))


def _hard_sigmoid(node: OnnxNode, alpha: float, beta: float) -> Expr:
    linear = R.add(R.multiply(node[0], like(node, alpha)), like(node, beta))
    return R.clip(linear, 0.0, 1.0)


@onnx_op("Swish")
def swish(node: OnnxNode) -> Expr:
    x, alpha = node[0], node.attr("alpha")
    return (
        R.nn.silu(x) if alpha == 1.0 else R.multiply(x, R.sigmoid(R.multiply(x, like(node, alpha))))
    )


@onnx_op("Gelu")
@onnx_op("Gelu", domain="com.microsoft")
def gelu(node: OnnxNode) -> Expr:
    tanh = node.choice("approximate", ("none", "tanh"), "none") == "tanh"
    return R.nn.gelu_tanh(node[0]) if tanh else R.nn.gelu(node[0])


@onnx_op("FastGelu", domain="com.microsoft")
def fast_gelu(node: OnnxNode) -> Expr:
    x = R.add(node[0], node[1]) if node.has(1) else node[0]
    return R.nn.gelu_tanh(x)


@onnx_op("Clip")
def clip_by_attributes(node: OnnxNode) -> Expr:
    low = node.attr("min", -math.inf)
    high = node.attr("max", math.inf)
    return R.clip(node[0], low, high)


@onnx_op("Clip", since=11)
def clip(node: OnnxNode) -> Expr:
    x, low, high = node[0], node.get(1), node.get(2)
    x = x if low is None else R.maximum(x, scalar(node, low))
    return x if high is None else R.minimum(x, scalar(node, high))
