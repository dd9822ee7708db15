"""Mappings of the greatest common divisor and the least common multiple."""

from __future__ import annotations

from structir.frontend.iterated_functions import greatest_common_divisor
from structir.frontend.scalars import number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

WIDE = "int64"


def _operands(node: FxNode) -> tuple[Expr, Expr]:
    """Returns the operands in int64, of equal shape."""
    sizes = ShapeExpr(node.out_dims())
    a, b = (node.emit(R.broadcast_to(cast(node[name], WIDE), sizes)) for name in ("self", "other"))
    return a, b


@torch_op("gcd.default")
def common_divisor(node: FxNode) -> Expr:
    result = greatest_common_divisor(node.host.builder, *_operands(node))
    return cast(result, node.out_dtype())


@torch_op("lcm")
def common_multiple(node: FxNode) -> Expr:
    """Builds lcm; it is 0 if an operand is 0."""
    a, b = _operands(node)
    divisor = greatest_common_divisor(node.host.builder, a, b)
    divisor = node.emit(R.maximum(divisor, number(1, WIDE)))
    product = R.multiply(R.floor_divide(R.abs(a), divisor), b)
    return cast(R.abs(product), node.out_dtype())
