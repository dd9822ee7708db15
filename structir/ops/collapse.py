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


def collapsed_to(given: CallView) -> ResolvedSignature:
    """Returns the signature that sums leading axes and axes of size 1 of the target shape."""
    shape = given["shape"]
    if not isinstance(shape, tuple):
        return ResolvedSignature("x[*s] -> y[*shape]")
    return _collapsed(given, shape, "")


def collapsed_like(given: CallView) -> ResolvedSignature:
    """Returns the signature with the shape of another tensor as target."""
    shape, rank = given.dims("collapse_target"), given.rank("collapse_target")
    if shape is None:
        own = ["*v"] if rank is None else index_vars(rank, "l")
        like = f"{access_text('collapse_target', own)} @ T2"
        return ResolvedSignature(f"x[*s], {like} -> {access_text('y', own)}")
    return _collapsed(given, shape, ", collapse_target[*v] @ T2")


def _collapsed(given: CallView, to: tuple[Dim, ...], other: str) -> ResolvedSignature:
    rank, count = given.rank("x"), len(to)
    attributes: dict[str, Any] = {"to": to}
    if rank is None:
        return ResolvedSignature(f"x[*s]{other} -> y[*to]", "", "", attributes)
    if count > rank:
        given.reject(f"shape: expected at most {rank} axes, found {count}", None, "E0304")
    own, sizes = index_vars(rank), given.dims("x")
    attributes["stays"] = tuple([select(compare("eq", size, 1), 0, 1) for size in to])
    out, checks = [], []
    for k, letter in enumerate(own[rank - count :]):
        size = sizes[rank - count + k] if sizes is not None else None
        if to[k] == 1:
            out.append("1")
        elif isinstance(to[k], int) or (size is not None and equal(size, to[k]) is not None):
            out.append(letter)
            checks.append(f"{letter} == to[{k}]")
        else:  # which of both it is, is known when it runs
            out.append(f"stays[{k}]*{letter} : q{k}")
            checks += [f"q{k} == to[{k}]", f"({letter} - to[{k}])*(to[{k}] - 1) == 0"]
    line = f"{access_text('x', own)}{other} -> {access_text('y', out)}"
    return ResolvedSignature(line, where_text(checks), "", attributes)


@op(collapsed_to, reduce="sum", reads_sizes=True)
def collapse_sum_to(x: ScalarExpr, shape: Sizes) -> ScalarExpr:
    """Sums over all axes that a broadcast from this shape would repeat."""
    return x


@op(collapsed_like, reduce="sum", reads_sizes=True)
def collapse_sum_like(x: ScalarExpr, collapse_target: ScalarExpr) -> ScalarExpr:
    """Sums over all axes that a broadcast from the shape of `y` would repeat."""
    return x


collapse_sum_to.example(f32[2, 3, 4], (3, 1))
collapse_sum_like.example(f32[2, 3], f32[1, 3])
