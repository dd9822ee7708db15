"""Sums that reverse a broadcast."""

from __future__ import annotations

from typing import Any

from structir.ir.dims import Dim, compare, equal, select
from structir.opdef.attributes import Sizes
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr


def collapse_sum_to_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature that sums leading axes and axes of size 1 of the target shape."""
    shape = call["shape"]
    if not isinstance(shape, tuple):
        return ResolvedSignature("x[*s] -> y[*shape]")
    return _collapse_signature(call, shape, "")


def collapse_sum_like_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with the shape of another tensor as target."""
    shape, rank = call.dims("collapse_target"), call.rank("collapse_target")
    if shape is None:
        variables = ["*v"] if rank is None else index_vars(rank, "l")
        like = f"{access_text('collapse_target', variables)} @ T2"
        return ResolvedSignature(f"x[*s], {like} -> {access_text('y', variables)}")
    return _collapse_signature(call, shape, ", collapse_target[*v] @ T2")


def _collapse_signature(call: CallView, to: tuple[Dim, ...], other: str) -> ResolvedSignature:
    rank, count = call.rank("x"), len(to)
    attributes: dict[str, Any] = {"to": to}
    if rank is None:
        return ResolvedSignature(f"x[*s]{other} -> y[*to]", "", "", attributes)
    if count > rank:
        call.reject(f"shape: expected at most {rank} axes, found {count}", None, "E0304")
    variables, sizes = index_vars(rank), call.dims("x")
    attributes["stride"] = tuple([select(compare("eq", size, 1), 0, 1) for size in to])
    out, checks = [], []
    for k, variable in enumerate(variables[rank - count :]):
        size = sizes[rank - count + k] if sizes is not None else None
        if to[k] == 1 and (size is None or size != 1):  # a sum of one term would lose -0.0
            out.append("1")
        elif isinstance(to[k], int) or (size is not None and equal(size, to[k]) is not None):
            out.append(variable)
            checks.append(f"{variable} == to[{k}]")
        else:  # whether the axis is summed is known only at run time
            out.append(f"stride[{k}]*{variable} : q{k}")
            checks += [f"q{k} == to[{k}]", f"({variable} - to[{k}])*(to[{k}] - 1) == 0"]
    signature = f"{access_text('x', variables)}{other} -> {access_text('y', out)}"
    return ResolvedSignature(signature, where_text(checks), "", attributes)


@op(collapse_sum_to_signature, reduce="sum", reads_sizes=True)
def collapse_sum_to(x: ScalarExpr, shape: Sizes) -> ScalarExpr:
    """Sums over all axes that a broadcast from this shape would repeat."""
    return x


@op(collapse_sum_like_signature, reduce="sum", reads_sizes=True)
def collapse_sum_like(x: ScalarExpr, collapse_target: ScalarExpr) -> ScalarExpr:
    """Sums over all axes that a broadcast from the shape of `collapse_target` would repeat."""
    return x


collapse_sum_to.example(f32[2, 3, 4], (3, 1))
collapse_sum_like.example(f32[2, 3], f32[1, 3])
