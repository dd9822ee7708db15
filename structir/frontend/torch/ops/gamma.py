"""Mappings of the gamma function: its logarithm, the derivatives of that, and zeta."""

from __future__ import annotations

from collections.abc import Callable

from structir.frontend.iterated_functions import incomplete_gamma
from structir.frontend.special_functions import hurwitz_zeta, polygamma
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


def _in_double(function: Callable[..., Expr]) -> Callable[[FxNode], Expr]:
    def build(node: FxNode) -> Expr:
        x = node.emit(R.astype(node.operand("self", node.out_dtype()), "float64"))
        return R.astype(function(x, node.emit), node.out_dtype())

    return build


torch_op("digamma", "special_digamma", "special_psi")(_in_double(lambda x, emit: R.digamma(x)))


@torch_op("polygamma", "special_polygamma")
def derivative_of_digamma(node: FxNode) -> Expr:
    order = node.plain("n")
    return _in_double(lambda x, emit: polygamma(order, x, emit))(node)


@torch_op("special_zeta")
def zeta(node: FxNode) -> Expr:
    x, q = (node.operand(name, node.out_dtype()) for name in ("self", "other"))
    x, q = (node.emit(R.astype(v, "float64")) for v in (x, q))
    return R.astype(hurwitz_zeta(x, q, node.emit), node.out_dtype())


@torch_op("igamma", "igammac", "special_gammainc", "special_gammaincc")
def regularized_gamma(node: FxNode) -> Expr:
    """Builds the lower or the upper regularized incomplete gamma function."""
    is_upper = node.spec.target.split(".")[1] in ("igammac", "special_gammaincc")
    sizes, dtype = ShapeExpr(node.out_dims()), node.out_dtype()
    a, x = (
        node.emit(R.broadcast_to(cast(node.operand(name, dtype), "float64"), sizes))
        for name in ("self", "other")
    )
    return cast(incomplete_gamma(node.host.builder, a, x, is_upper), dtype)
