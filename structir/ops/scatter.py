"""Writes at data-dependent indices: a copy of a tensor with replaced or combined elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Literal

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dims import Dim, ceildiv, dim_max, dim_min
from structir.ir.expr import Call, Expr
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Axis, Operands, Size
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, index_vars
from structir.opdef.index_vars import where_text as stated
from structir.opdef.shape_eval import UNKNOWN
from structir.ops.broadcast import equal, logical_and, where
from structir.ops.collapse import collapse_sum_to
from structir.ops.create import arange, full_like, ones_like, zeros_like
from structir.ops.elementwise import astype
from structir.ops.indexing import gather_elements, gather_nd, index_tensor
from structir.ops.layout import broadcast_to
from structir.ops.reshape import reshape
from structir.projections.scalar_expr import ScalarExpr

Reduction = Literal["update", "add", "mul", "max", "min"]
MONOIDS = {"update": None, "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _combined(given: CallView, line: str, conditions: str = "") -> ResolvedSignature:
    """Returns the signature with the reduction of the attribute; `update` keeps the last write."""
    return ResolvedSignature(line, conditions, "", {"monoid": MONOIDS[given["reduction"]]})


def _only_sizes(given: CallView) -> ResolvedSignature:
    """Returns the signature where ranks or coordinate counts are known only at run time."""
    line = "data[*s], indices[*t] @ I, updates[*u] -> y[*s]"
    return attrs.evolve(_combined(given, line), sizes=True)


def scattered(given: CallView) -> ResolvedSignature:
    """Returns the signature in which an index replaces the coordinate of the axis."""
    ranks = [given.rank(name) for name in ("data", "indices", "updates")]
    known = [rank for rank in ranks if rank is not None]
    if len(set(known)) > 1:
        given.reject("expected data, indices and updates of equal rank", None, "E0304")
    if not known:
        return _only_sizes(given)
    axis, own = given.axis("axis", known[0]), index_vars(known[0])
    at = ["indices : n" + str(k) if k == axis else f"{i} : n{k}" for k, i in enumerate(own)]
    operands = [
        access_text("data", index_vars(known[0], "n")),
        access_text("indices", own) + " @ I",
        access_text("updates", own),
    ]
    return _combined(given, f"{', '.join(operands)} -> {access_text('y', at)}")


@op(scattered, base="data", reduce="monoid")
def scatter_elements(
    data: ScalarExpr,
    indices: ScalarExpr,
    updates: ScalarExpr,
    axis: Axis = 0,
    reduction: Reduction = "update",
) -> ScalarExpr:
    """Writes or combines each update at the index along an axis."""
    return updates


@scatter_elements.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    data, indices, updates = call.args
    axis = call.attrs.get("axis", 0)
    places = ScatterTargets(
        lambda x: emit(gather_elements(x, indices, axis)),
        lambda x, new, how: emit(scatter_elements(x, indices, new, axis, how)),
    )
    how = call.attrs.get("reduction", "update")
    own, new = SCATTERED[how](data, updates, result, cotangent, places, emit)
    return [own, None, new]


def scattered_tuples(given: CallView) -> ResolvedSignature:
    """Returns the signature in which the last axis of the indices holds coordinates."""
    rank, tuples = given.rank("data"), given.rank("indices")
    if tuples == 0:
        given.reject("indices: expected at least 1 axis, found a scalar", None, "E0304")
    sizes = given.dims("indices")
    count = sizes[-1] if sizes else None
    if rank is None or tuples is None or not isinstance(count, int):
        return _only_sizes(given)
    if count > rank:
        message = f"indices: expected at most {rank} coordinates along the last axis"
        given.reject(f"{message}, found {count}")
    outer, rest = index_vars(tuples - 1, "j"), index_vars(rank - count, "t")
    at = [f"indices[{', '.join([*outer, str(k)])}] : n{k}" for k in range(count)]
    at += [f"{e} : n{count + k}" for k, e in enumerate(rest)]
    operands = [
        access_text("data", index_vars(rank, "n")),
        access_text("indices", [*outer, str(count)]) + " @ I",
        access_text("updates", [*outer, *rest]),
    ]
    checks = [f"{e} == n{count + k}" for k, e in enumerate(rest)]
    return _combined(given, f"{', '.join(operands)} -> {access_text('y', at)}", stated(checks))


@op(scattered_tuples, base="data", reduce="monoid", reads_sizes=True)
def scatter_nd(
    data: ScalarExpr, indices: ScalarExpr, updates: ScalarExpr, reduction: Reduction = "update"
) -> ScalarExpr:
    """Writes or combines slices of updates at index tuples."""
    return updates


@scatter_nd.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    data, indices, updates = call.args
    places = ScatterTargets(
        lambda x: emit(gather_nd(x, indices)),
        lambda x, new, how: emit(scatter_nd(x, indices, new, how)),
    )
    how = call.attrs.get("reduction", "update")
    own, new = SCATTERED[how](data, updates, result, cotangent, places, emit)
    return [own, None, new]


def put(given: CallView) -> ResolvedSignature:
    """Returns the signature of one index tensor per leading axis, all broadcast to the updates."""
    count, rank = len(given.info("indices")), given.rank("data")
    if not count:
        given.reject("indices: expected at least one index tensor, found none")
    names = [f"indices_{k}" for k in range(count)]
    attributes = {"monoid": "sum" if given["accumulate"] else None}
    if rank is None or None in given.ranks("indices"):
        others = ", ".join([f"{name}[*t{k}] @ I" for k, name in enumerate(names)])
        line = f"data[*s], {others}, values[*u] -> y[*s]"
        return ResolvedSignature(line, "", "", attributes, sizes=True)
    if count > rank:
        given.reject(f"indices: expected at most {rank} index tensors, found {count}")
    rest = index_vars(rank - count, "t")
    at = [f"{name} : n{k}" for k, name in enumerate(names)]
    at += [f"{e} : n{count + k}" for k, e in enumerate(rest)]
    others = ", ".join([f"{name}[~b] @ I" for name in names])
    data, values = access_text("data", index_vars(rank, "n")), access_text("values", ["~b", *rest])
    checks = [f"{e} == n{count + k}" for k, e in enumerate(rest)]
    line = f"{data}, {others}, {values} -> {access_text('y', at)}"
    return ResolvedSignature(line, stated(checks), "", attributes)


@op(put, base="data", reduce="monoid")
def index_put(
    data: ScalarExpr, indices: Operands, values: ScalarExpr, accumulate: bool = False
) -> ScalarExpr:
    """Writes or adds values at broadcast index tensors."""
    return values


@index_put.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    data, indices, values = call.args
    places = ScatterTargets(
        lambda x: emit(index_tensor(x, indices)),
        lambda x, new, how: emit(index_put(x, indices, new, how == "add")),
    )
    how = "add" if call.attrs.get("accumulate", False) else "update"
    spread = emit(broadcast_to(values, sizes_of(places.read(data))))
    own, new = SCATTERED[how](data, spread, result, cotangent, places, emit)
    return [own, None, collapse_sum_to(new, sizes_of(values))]


def slice_written(given: CallView) -> ResolvedSignature:
    """Returns the signature that writes at the slice `start : end : step` of an axis."""
    rank, start, end, step = given.rank("x"), given["start"], given["end"], given["step"]
    if rank is None:
        return ResolvedSignature("x[*s], src[*t] -> y[*s]", sizes=True)
    if isinstance(step, int) and step < 1:
        given.reject(f"step: expected a positive number, found {step}")
    axis, own, sizes = given.axis("axis", rank), index_vars(rank), given.dims("x")
    at = [f"start + step * {i} : n{k}" if k == axis else f"{i} : n{k}" for k, i in enumerate(own)]
    checks = [f"{i} == n{k}" for k, i in enumerate(own) if k != axis]
    attributes: dict[str, Dim] = {}
    if sizes is not None and UNKNOWN not in (start, end, step):
        size = sizes[axis]
        first, last = _from_the_front(start, size), dim_min(_from_the_front(end, size), size)
        attributes |= {"start": first, "count": dim_max(ceildiv(last - first, step), 0)}
        checks.append(f"{own[axis]} == count")
    data, new = access_text("x", index_vars(rank, "n")), access_text("src", own)
    return ResolvedSignature(
        f"{data}, {new} -> {access_text('y', at)}", stated(checks), "", attributes
    )


def _from_the_front(bound: Dim, size: Dim) -> Dim:
    """Normalizes a negative end of a slice, limited to the front."""
    return dim_max(bound + size, 0) if isinstance(bound, int) and bound < 0 else bound


@op(slice_written, base="x", reads_sizes=True)
def slice_scatter(
    x: ScalarExpr, src: ScalarExpr, start: Size, end: Size, step: Size = 1, axis: Axis = 0
) -> ScalarExpr:
    """Replaces a slice along one axis."""
    return src


# What comes back to the data and to the updates, by how they are combined.


@attrs.frozen(eq=False)
class ScatterTargets:
    """Read and write access at the indices of a scatter."""

    read: Callable[[Expr], Expr]
    write: Callable[[Expr, Expr, str], Expr]


def sizes_of(x: Expr) -> tuple[Dim, ...]:
    """Returns the dims of a tensor, which must be known."""
    dims: Any = x.struct_info.dims
    if isinstance(dims, tuple):
        return dims
    text = "it has no gradient: the sizes of its operands are not known"
    raise DiagnosticError(Diagnostic(text, x.span))


def _of_last(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, places: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Propagates to the last update of each element, and to unmodified data."""
    dims = sizes_of(updates)
    numbers = emit(reshape(arange(prod(dims)), dims))
    last = places.write(full_like(data, -1, "int64"), numbers, "update")
    seen = equal(places.read(last), numbers)
    return (
        where(equal(last, -1), cotangent, zeros_like(data)),
        where(seen, places.read(cotangent), zeros_like(updates)),
    )


def _of_sum(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, places: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    return cotangent, places.read(cotangent)


def _of_extreme(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, places: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Divides the cotangent among the elements equal to the result."""
    dtype = data.struct_info.dtype
    own = emit(astype(equal(data, result), dtype))
    new = emit(astype(equal(updates, places.read(result)), dtype))
    share = emit(cotangent / places.write(own, new, "add"))
    return own * share, new * places.read(share)


def _of_product(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, places: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Multiplies by the product of the other factors, with zeros handled separately."""
    dtype = data.struct_info.dtype
    zeros = [emit(equal(x, 0)) for x in (data, updates)]
    bare = [
        emit(where(zero, ones_like(x), x)) for zero, x in zip(zeros, (data, updates), strict=True)
    ]
    few = places.write(astype(zeros[0], dtype), emit(astype(zeros[1], dtype)), "add")
    rest = places.write(bare[0], bare[1], "mul")
    found = []
    for zero, x, count, others, above in zip(
        zeros,
        bare,
        (few, places.read(few)),
        (rest, places.read(rest)),
        (cotangent, places.read(cotangent)),
        strict=True,
    ):
        none, single = equal(count, 0), logical_and(equal(count, 1), zero)
        product = where(none, others / x, where(single, others, zeros_like(x)))
        found.append(above * product)
    return found[0], found[1]


SCATTERED = {
    "update": _of_last,
    "add": _of_sum,
    "mul": _of_product,
    "max": _of_extreme,
    "min": _of_extreme,
}

scatter_elements.example(f32[3, 4], i64[2, 4].below(3), f32[2, 4], axis=0, reduction="add")
scatter_nd.example(f32[3, 4], i64[2, 1].below(3), f32[2, 4])
index_put.example(f32[3, 4], [i64[2].below(3)], f32[2, 4], True)
slice_scatter.example(f32[6, 4], f32[3, 4], 0, 6, 2)
