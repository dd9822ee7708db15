"""Mappings of the gamma function: its logarithm and the derivative of that."""

from __future__ import annotations

from collections.abc import Callable

from structir.frontend.special_functions import digamma, log_gamma
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
