"""Ops that guide passes and leave values as they are."""

from __future__ import annotations

from structir.ir.expr import Expr, Tuple
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.ops.create import ones_like
from structir.projections.scalar_expr import ScalarExpr


@op("input[*s] -> y[*s]", name="grad.no_grad")
def no_grad(input: ScalarExpr) -> ScalarExpr:
    """The value, through which no gradient flows."""
    return input


no_grad.no_gradient("the program asks for none")


@op("input[*s] -> y[*s]", name="grad.start_checkpoint")
def start_checkpoint(input: ScalarExpr) -> ScalarExpr:
    """The value, from which on `remat` computes values again for the gradient."""
    return input


start_checkpoint.checkpoint("start")


@op("input[*s] -> y[*s]", name="grad.end_checkpoint")
def end_checkpoint(input: ScalarExpr) -> ScalarExpr:
    """The value, up to which `remat` computes values again for the gradient."""
    return input


end_checkpoint.checkpoint("end")


@op("data[*s] -> y[*s], mask[*s]", name="nn.dropout", parts=True)
def dropout(data: Expr, rate: float = 0.5) -> Expr:
    """The value and a mask of ones: at inference nothing is dropped."""
    return Tuple((data, ones_like(data)))


dropout.example(f32[3, 4])
