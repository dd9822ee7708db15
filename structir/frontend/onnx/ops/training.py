"""Mappings of optimizer steps: the next value and state of each tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.scalars import number
from structir.ir.expr import Expr
from structir.script import R

DOMAIN = "ai.onnx.preview.training"
Step = Callable[[OnnxNode, list[Expr]], list[Expr]]  # x, gradient, states -> x, states


def optimiser(name: str, states: int) -> Callable[[Step], Step]:
    """Registers an optimizer step per tensor; operands and results are grouped by kind."""

    def register(step: Step) -> Step:
        def build(node: OnnxNode) -> list[Expr]:
            count = (len(node.values) - 2) // (2 + states)
            columns = [
                step(node, [node[2 + k + kind * count] for kind in range(2 + states)])
                for k in range(count)
            ]
            return [value for row in zip(*columns, strict=True) for value in row]

        onnx_op(name, domain=DOMAIN)(build)
        return step

    return register


def _times(node: OnnxNode, factor: Any, x: Expr) -> Expr:
    factor = factor if isinstance(factor, Expr) else _number(node, x, factor)
    return R.multiply(factor, x)


def _number(node: OnnxNode, x: Expr, value: float) -> Expr:
    return number(value, node.tensor_info(x).dtype or "float32")


def _regularize(node: OnnxNode, x: Expr, gradient: Expr) -> Expr:
    return R.add(gradient, _times(node, node.attr("norm_coefficient"), x))


@optimiser("Adagrad", 1)
def adagrad(node: OnnxNode, tensors: list[Expr]) -> list[Expr]:
    x, gradient, squares = tensors
    steps = R.astype(node[1], node.tensor_info(x).dtype)
    decay = R.multiply(steps, _number(node, x, node.attr("decay_factor")))
    rate = R.divide(node[0], R.add(decay, _number(node, x, 1.0)))
    gradient = node.emit(_regularize(node, x, gradient))
    squares = node.emit(R.add(squares, R.multiply(gradient, gradient)))
    root = R.add(R.sqrt(squares), _number(node, x, node.attr("epsilon")))
    return [R.subtract(x, R.multiply(rate, R.divide(gradient, root))), squares]


@optimiser("Adam", 2)
def adam(node: OnnxNode, tensors: list[Expr]) -> list[Expr]:
    x, gradient, mean, squares = tensors
    alpha, beta = node.attr("alpha"), node.attr("beta")
    gradient = node.emit(_regularize(node, x, gradient))
    mean = node.emit(R.add(_times(node, alpha, mean), _times(node, 1 - alpha, gradient)))
    powered = R.multiply(gradient, gradient)
    squares = node.emit(R.add(_times(node, beta, squares), _times(node, 1 - beta, powered)))
    root = R.add(R.sqrt(squares), _number(node, x, node.attr("epsilon")))
    one = _number(node, x, 1.0)
    steps = node.emit(R.astype(node[1], node.tensor_info(x).dtype))

    def unbiased(base: float) -> Expr:
        return R.subtract(one, R.power(_number(node, x, base), steps))

    warm = R.divide(R.multiply(node[0], R.sqrt(unbiased(beta))), unbiased(alpha))
    rate = R.where(R.greater(steps, _number(node, x, 0.0)), warm, node[0])
    updated = R.subtract(x, R.multiply(rate, R.divide(mean, root)))
    return [_times(node, 1 - node.attr("norm_coefficient_post"), updated), mean, squares]


@optimiser("Momentum", 1)
def momentum(node: OnnxNode, tensors: list[Expr]) -> list[Expr]:
    x, gradient, speed = tensors
    gradient = node.emit(_regularize(node, x, gradient))
    alpha = node.attr("alpha")
    zero = R.equal(node[1], number(0, node.dtype(1)))
    beta = R.where(zero, _number(node, x, 1.0), _number(node, x, node.attr("beta")))
    speed = node.emit(R.add(_times(node, alpha, speed), R.multiply(beta, gradient)))
    step = speed
    if node.choice("mode", ("standard", "nesterov")) == "nesterov":
        step = R.add(gradient, _times(node, alpha, speed))
    return [R.subtract(x, R.multiply(node[0], step)), speed]
