"""Mappings of special functions: error functions, modified Bessel functions, and ldexp."""

from __future__ import annotations

import math
from collections.abc import Sequence

import structir.frontend.special_functions as functions
from structir.frontend.torch.chebyshev import (
    LARGE_I0,
    LARGE_I1,
    SCALED_ERFC,
    SMALL_I0,
    SMALL_I1,
)
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast, number
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


def _double(value: float) -> Expr:
    return number(value, "float64")


@torch_op("special_ndtri")
def inverse_normal_distribution(node: FxNode) -> Expr:
    """Builds ndtri in float64."""
    return cast(R.ndtri(_operand_in_double(node)), node.out_dtype())


@torch_op("nextafter")
def next_after(node: FxNode) -> Expr:
    sizes, dtype = ShapeExpr(node.out_dims()), node.out_dtype()
    x, y = (node.emit(R.broadcast_to(node.operand(n, dtype), sizes)) for n in ("self", "other"))
    return functions.next_after(x, y, sizes, dtype, node.emit)


def _series(node: FxNode, u: Expr, coefficients: Sequence[float]) -> Expr:
    """Returns a Chebyshev series for -1 <= u <= 1 by Clenshaw's recurrence."""
    twice = node.emit(R.multiply(u, _double(2.0)))
    first: Expr = _double(0.0)
    second: Expr = _double(0.0)
    for coefficient in coefficients[:0:-1]:
        product = R.subtract(R.multiply(twice, first), second)
        first, second = node.emit(R.add(product, _double(coefficient))), first
    result = R.subtract(R.multiply(u, first), second)
    return node.emit(R.add(result, _double(coefficients[0])))


def _operand_in_double(node: FxNode) -> Expr:
    return node.emit(cast(node.operand("self", node.out_dtype()), "float64"))


def _scaled_erfc(node: FxNode, x: Expr) -> Expr:
    """Returns exp(x**2) * erfc(x) for x >= 0."""
    three = _double(3.0)
    t = node.emit(R.divide(three, R.add(three, x)))
    u = node.emit(R.subtract(R.multiply(t, _double(2.0)), _double(1.0)))
    return R.multiply(t, _series(node, u, SCALED_ERFC))


@torch_op("special_erfcx", "erfcx")
def scaled_complementary_error_function(node: FxNode) -> Expr:
    """Builds exp(x**2) * erfc(x), for x < 0 as 2 * exp(x**2) minus the value at -x."""
    x = _operand_in_double(node)
    distance = node.emit(R.abs(x))
    tail = node.emit(_scaled_erfc(node, distance))
    twice = R.multiply(R.exp(R.multiply(x, x)), _double(2.0))
    return cast(R.where(R.less(x, _double(0.0)), R.subtract(twice, tail), tail), node.out_dtype())


@torch_op("special_log_ndtr", "log_ndtr")
def log_normal_distribution(node: FxNode) -> Expr:
    """Builds the logarithm of the normal distribution, for x < 0 by the scaled erfc."""
    x = _operand_in_double(node)
    z = node.emit(R.multiply(R.abs(x), _double(math.sqrt(0.5))))
    tail = node.emit(_scaled_erfc(node, z))
    square = R.multiply(z, z)
    below = R.subtract(R.log(R.multiply(tail, _double(0.5))), square)
    upper_tail = R.multiply(R.multiply(R.exp(R.negative(square)), tail), _double(0.5))
    above = R.log1p(R.negative(upper_tail))
    return cast(R.where(R.less(x, _double(0.0)), below, above), node.out_dtype())


def _bessel(node: FxNode, order: int, is_scaled: bool) -> Expr:
    """Returns the modified Bessel function of order 0 or 1, times exp(-|x|) if scaled."""
    small_series, large_series = [(SMALL_I0, LARGE_I0), (SMALL_I1, LARGE_I1)][order]
    x = _operand_in_double(node)
    distance = node.emit(R.abs(x))
    near = node.emit(R.minimum(distance, _double(8.0)))
    far = node.emit(R.maximum(distance, _double(8.0)))
    one = _double(1.0)
    u = node.emit(R.subtract(R.multiply(near, _double(0.25)), one))
    small = _series(node, u, small_series)
    v = node.emit(R.subtract(R.divide(_double(16.0), far), one))
    large = R.divide(_series(node, v, large_series), R.sqrt(far))
    small = R.multiply(small, near) if order else small
    result = R.where(R.less(distance, _double(8.0)), small, large)
    result = R.multiply(result, R.sign(x)) if order else result
    result = result if is_scaled else R.multiply(result, R.exp(distance))
    return cast(result, node.out_dtype())


torch_op("i0", "special_i0", "special_modified_bessel_i0")(
    lambda node: _bessel(node, 0, is_scaled=False)
)
torch_op("special_i0e")(lambda node: _bessel(node, 0, is_scaled=True))
torch_op("special_i1", "special_modified_bessel_i1")(lambda node: _bessel(node, 1, is_scaled=False))
torch_op("special_i1e")(lambda node: _bessel(node, 1, is_scaled=True))


@torch_op("ldexp")
def scaled_by_power_of_two(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    return R.multiply(
        node.operand("self", dtype), R.power(number(2, dtype), node.operand("other", dtype))
    )
