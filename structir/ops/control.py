"""Identity ops that control passes."""

from __future__ import annotations

from collections.abc import Callable

from structir.ir.expr import Call, Expr, Tuple
from structir.opdef.attributes import Device
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.ops.create import ones_like
from structir.projections.scalar_expr import ScalarExpr


@op("input[*s] -> y[*s]", name="grad.no_grad")
def no_grad(input: ScalarExpr) -> ScalarExpr:
    """Returns the operand and blocks its gradient."""
    return input


no_grad.no_gradient("the op blocks the gradient")


@op("input[*s] -> y[*s]", name="grad.start_checkpoint")
def start_checkpoint(input: ScalarExpr) -> ScalarExpr:
    """Returns the operand and starts a region that `remat` recomputes for the gradient."""
    return input


start_checkpoint.checkpoint("start")


@op("input[*s] -> y[*s]", name="grad.end_checkpoint")
def end_checkpoint(input: ScalarExpr) -> ScalarExpr:
    """Returns the operand and ends a region that `remat` recomputes for the gradient."""
    return input


end_checkpoint.checkpoint("end")


@op("data[*s] -> y[*s]")
def to_vdevice(data: ScalarExpr, dst_vdevice: Device) -> ScalarExpr:
    """Returns a copy of the operand on another vdevice, such as `"cuda:0"`."""
    return data


to_vdevice.vdevice("dst_vdevice")


@to_vdevice.gradient
def _to_vdevice_gradient(
    call: Call, result: Expr, cotangent: Expr, emit: Callable[[Expr], Expr]
) -> list[Expr]:
    """Returns the cotangent on the vdevice of the operand."""
    vdevice = getattr(call.args[0].struct_info, "vdevice", None)
    return [cotangent if vdevice is None else emit(to_vdevice(cotangent, str(vdevice)))]


to_vdevice.example(f32[3, 4], dst_vdevice="llvm")


@op("data[*s] -> y[*s], mask[*s]", name="nn.dropout", parts=True)
def dropout(data: Expr, rate: float = 0.5) -> Expr:
    """Returns the operand and a mask of ones: inference drops nothing."""
    return Tuple((data, ones_like(data)))


dropout.example(f32[3, 4])
