"""Mappings of the gamma function: its logarithm, the derivatives of that, and zeta."""

from __future__ import annotations

from collections.abc import Callable

from structir.frontend.special_functions import digamma, hurwitz_zeta, log_gamma, polygamma
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.ir.expr import Expr
from structir.script import R


def _in_double(function: Callable[..., Expr]) -> Callable[[FxNode], Expr]:
    def build(node: FxNode) -> Expr:
        x = node.emit(R.astype(node.operand("self", node.out_dtype()), "float64"))
        return R.astype(function(x, node.emit), node.out_dtype())

    return build


torch_op("lgamma")(_in_double(log_gamma))
torch_op("digamma")(_in_double(digamma))


@torch_op("polygamma", "special_polygamma")
def derivative_of_digamma(node: FxNode) -> Expr:
    order = node.plain("n")
    return _in_double(lambda x, emit: polygamma(order, x, emit))(node)


@torch_op("special_zeta")
def zeta(node: FxNode) -> Expr:
    x, q = (node.operand(name, node.out_dtype()) for name in ("self", "other"))
    x, q = (node.emit(R.astype(v, "float64")) for v in (x, q))
    return R.astype(hurwitz_zeta(x, q, node.emit), node.out_dtype())
