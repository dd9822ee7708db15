"""Prefix sums and products along an axis."""

from __future__ import annotations

from structir.opdef.attributes import Axis, DType
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars
from structir.projections.scalar_expr import ScalarExpr, cast


def scan_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of a triangular reduction: element `j` is read for `i` if j <= i."""
    order = "<" if call["exclusive"] else "<="
    if call["axis"] is None:
        signature = "x[*s] -> out[i] @ dtype or T"
        return ResolvedSignature(signature, "i == flat(*s)", f"flat(*s) {order} i")
    rank = call.rank("x")
    if rank is None:
        return ResolvedSignature("x[*s] -> out[*s] @ dtype or T")
    in_variables, out_variables = index_vars(rank), index_vars(rank)
    axis = call.axis("axis", rank)
    in_variables[axis], out_variables[axis] = "j", "i"
    signature = (
        f"{access_text('x', in_variables)} -> {access_text('out', out_variables)} @ dtype or T"
    )
    return ResolvedSignature(signature, "i == j", f"j {order} i")


@op(scan_signature, reduce="sum")
def cumsum(
    x: ScalarExpr, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> ScalarExpr:
    """Computes the cumulative sum along an axis; over the flattened tensor by default.

    With `dtype`, elements are converted before they are combined.
    """
    return x if dtype is None else cast(x, dtype)


@op(scan_signature, reduce="prod")
def cumprod(
    x: ScalarExpr, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> ScalarExpr:
    """Computes the cumulative product along an axis; over the flattened tensor by default.

    With `dtype`, elements are converted before they are combined.
    """
    return x if dtype is None else cast(x, dtype)


cumsum.example(f32[3, 4], axis=1)
cumprod.example(f32[3, 4], exclusive=True)
