"""Mappings of special functions: the inverse of the error function, and ldexp."""

from __future__ import annotations

import math

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast, number
from structir.ir.expr import Expr
from structir.script import R

WINITZKI = 0.147  # the parameter of his approximation, with a relative error of 2e-3
NEWTON_STEPS = 3


def _double(value: float) -> Expr:
    return number(value, "float64")


@torch_op("erfinv", "special_erfinv")
def inverse_error_function(node: FxNode) -> Expr:
    """Builds erfinv in float64: Winitzki's approximation, then Newton steps."""
    x = node.emit(cast(node.operand("self", node.out_dtype()), "float64"))
    below_one = R.minimum(R.abs(x), _double(1 - 2.0**-53))
    inner = node.emit(R.multiply(below_one, R.sign(x)))
    logarithm = node.emit(R.log(R.subtract(_double(1.0), R.multiply(inner, inner))))
    half = _double(2 / (math.pi * WINITZKI))
    middle = node.emit(R.add(half, R.multiply(logarithm, _double(0.5))))
    ratio = R.multiply(logarithm, _double(1 / WINITZKI))
    root = R.sqrt(R.subtract(R.multiply(middle, middle), ratio))
    y = node.emit(R.multiply(R.sign(inner), R.sqrt(R.subtract(root, middle))))
    for _ in range(NEWTON_STEPS):
        slope = R.multiply(R.exp(R.multiply(y, y)), _double(math.sqrt(math.pi) / 2))
        y = node.emit(R.subtract(y, R.multiply(R.subtract(R.erf(y), inner), slope)))
    is_one = R.equal(R.abs(x), _double(1.0))
    finite = R.where(is_one, R.multiply(R.sign(x), _double(math.inf)), y)
    is_outside = R.logical_not(R.less_equal(R.abs(x), _double(1.0)))
    return cast(R.where(is_outside, _double(math.nan), finite), node.out_dtype())


@torch_op("ldexp")
def scaled_by_power_of_two(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    return R.multiply(
        node.operand("self", dtype), R.power(number(2, dtype), node.operand("other", dtype))
    )
