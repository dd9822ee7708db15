"""Mappings of the gamma function: its logarithm and the derivative of that."""

from __future__ import annotations

import math

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import number
from structir.ir.expr import Expr
from structir.script import R

SHIFT = 8  # the asymptotic series of the gamma function are accurate from here on
LOG_GAMMA_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760)


def _double(value: float) -> Expr:
    return number(value, "float64")


def _series(node: FxNode, x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Returns a polynomial in 1 / x**2."""
    inverse = node.emit(R.divide(_double(1.0), R.multiply(x, x)))
    result: Expr = _double(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = R.add(R.multiply(result, inverse), _double(coefficient))
    return node.emit(result)


def _reflected(node: FxNode) -> tuple[Expr, Expr, Expr]:
    """Returns the operand x in float64, whether x < 0.5, and 1 - x there, x elsewhere."""
    x = node.emit(R.astype(node.operand("self", node.out_dtype()), "float64"))
    is_reflected = node.emit(R.less(x, _double(0.5)))
    return x, is_reflected, node.emit(R.where(is_reflected, R.subtract(_double(1.0), x), x))


@torch_op("lgamma")
def log_gamma(node: FxNode) -> Expr:
    """Builds log |gamma(x)|: Stirling's series of z + 8, the recurrence, and the reflection."""
    x, is_reflected, z = _reflected(node)
    is_small = node.emit(R.less(z, _double(SHIFT)))
    factors = node.emit(R.where(is_small, z, _double(1.0)))
    product = factors
    for k in range(1, SHIFT):
        product = R.multiply(product, R.add(factors, _double(k)))
    product = R.where(is_small, product, _double(1.0))
    y = node.emit(R.where(is_small, R.add(z, _double(SHIFT)), z))
    series = R.divide(_series(node, y, LOG_GAMMA_SERIES), y)
    main = R.subtract(R.multiply(R.subtract(y, _double(0.5)), R.log(y)), y)
    stirling = R.add(R.add(main, _double(0.5 * math.log(2 * math.pi))), series)
    value = node.emit(R.subtract(stirling, R.log(product)))
    turns = R.subtract(x, R.round(x))
    sine = R.abs(R.sin(R.multiply(turns, _double(math.pi))))
    other = R.subtract(R.subtract(_double(math.log(math.pi)), R.log(sine)), value)
    finite = R.where(is_reflected, other, value)
    result = R.where(R.isinf(x), _double(math.inf), finite)
    return R.astype(result, node.out_dtype())


@torch_op("digamma")
def digamma(node: FxNode) -> Expr:
    """Builds the derivative of log gamma: the series of z + 8, the recurrence, the reflection."""
    x, is_reflected, z = _reflected(node)
    y = node.emit(R.add(z, _double(SHIFT)))
    inverse = node.emit(R.divide(_double(1.0), y))
    series = R.multiply(R.multiply(inverse, inverse), _series(node, y, DIGAMMA_SERIES))
    value = R.add(R.subtract(R.log(y), R.multiply(inverse, _double(0.5))), series)
    for k in range(SHIFT):
        value = R.subtract(value, R.divide(_double(1.0), R.add(z, _double(k))))
    value = node.emit(value)
    turns = R.subtract(x, R.round(x))
    tangent = R.tan(R.multiply(turns, _double(math.pi)))
    other = R.subtract(value, R.divide(_double(math.pi), tangent))
    is_pole = R.logical_and(R.less(x, _double(0.0)), R.equal(x, R.floor(x)))
    result = R.where(is_pole, _double(math.nan), R.where(is_reflected, other, value))
    return R.astype(result, node.out_dtype())
