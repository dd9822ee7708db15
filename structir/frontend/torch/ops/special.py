"""Mappings of special functions: error functions, Bessel and Airy functions, and ldexp."""

from __future__ import annotations

import math

import structir.frontend.bessel as bessel
import structir.frontend.special_functions as functions
from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
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


def _operand_in_double(node: FxNode) -> Expr:
    return node.emit(cast(node.operand("self", node.out_dtype()), "float64"))


@torch_op("special_erfcx", "erfcx")
def scaled_complementary_error_function(node: FxNode) -> Expr:
    """Builds exp(x**2) * erfc(x), for x < 0 as 2 * exp(x**2) minus the value at -x."""
    x = _operand_in_double(node)
    distance = node.emit(R.abs(x))
    tail = functions.scaled_erfc(distance, node.emit)
    twice = R.multiply(R.exp(R.multiply(x, x)), _double(2.0))
    return cast(R.where(R.less(x, _double(0.0)), R.subtract(twice, tail), tail), node.out_dtype())


@torch_op("special_log_ndtr", "log_ndtr")
def log_normal_distribution(node: FxNode) -> Expr:
    """Builds the logarithm of the normal distribution, for x < 0 by the scaled erfc."""
    x = _operand_in_double(node)
    z = node.emit(R.multiply(R.abs(x), _double(math.sqrt(0.5))))
    tail = functions.scaled_erfc(z, node.emit)
    square = R.multiply(z, z)
    below = R.subtract(R.log(R.multiply(tail, _double(0.5))), square)
    upper_tail = R.multiply(R.multiply(R.exp(R.negative(square)), tail), _double(0.5))
    above = R.log1p(R.negative(upper_tail))
    return cast(R.where(R.less(x, _double(0.0)), below, above), node.out_dtype())


def _bessel(node: FxNode, order: int, is_scaled: bool) -> Expr:
    """Builds a modified Bessel function in float64."""
    x = _operand_in_double(node)
    return cast(functions.bessel_i(x, order, is_scaled, node.emit), node.out_dtype())


torch_op("i0", "special_i0", "special_modified_bessel_i0")(
    lambda node: _bessel(node, 0, is_scaled=False)
)
torch_op("special_i0e")(lambda node: _bessel(node, 0, is_scaled=True))
torch_op("special_i1", "special_modified_bessel_i1")(lambda node: _bessel(node, 1, is_scaled=False))
torch_op("special_i1e")(lambda node: _bessel(node, 1, is_scaled=True))


BESSEL = {
    "bessel_j0": lambda x, emit: bessel.bessel_j(x, 0, emit),
    "bessel_j1": lambda x, emit: bessel.bessel_j(x, 1, emit),
    "bessel_y0": lambda x, emit: bessel.bessel_y(x, 0, emit),
    "bessel_y1": lambda x, emit: bessel.bessel_y(x, 1, emit),
    "modified_bessel_k0": lambda x, emit: bessel.bessel_k(x, 0, False, emit),
    "modified_bessel_k1": lambda x, emit: bessel.bessel_k(x, 1, False, emit),
    "scaled_modified_bessel_k0": lambda x, emit: bessel.bessel_k(x, 0, True, emit),
    "scaled_modified_bessel_k1": lambda x, emit: bessel.bessel_k(x, 1, True, emit),
    "spherical_bessel_j0": bessel.spherical_bessel_j0,
    "airy_ai": bessel.airy,
}


@torch_op(*[f"special_{name}" for name in BESSEL])
def bessel_function(node: FxNode) -> Expr:
    """Builds a function of x in float64."""
    function = BESSEL[node.spec.target.split(".")[1].removeprefix("special_")]
    name = next(iter(node.spec.args))  # `self` of some, `x` of the others
    x = node.emit(cast(node.operand(name, node.out_dtype()), "float64"))
    return cast(function(x, node.emit), node.out_dtype())


@torch_op("ldexp")
def scaled_by_power_of_two(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    return R.multiply(
        node.operand("self", dtype), R.power(number(2, dtype), node.operand("other", dtype))
    )
