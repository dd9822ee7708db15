"""Writes at data-dependent indices: a copy of a tensor with replaced or combined elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Literal, NoReturn

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dims import Dim, Poly, ceildiv, compare, dim_max, dim_min
from structir.ir.expr import Call, Expr
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Axis, Operands, Size
from structir.opdef.call_view import CallView, ResolvedSignature, rank_hint
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.opdef.shape_eval import UNKNOWN
from structir.ops.broadcast import equal, logical_and, where
from structir.ops.collapse import collapse_sum_to
from structir.ops.create import arange, full_like, ones_like, zeros_like
from structir.ops.elementwise import astype
from structir.ops.indexing import (
    coordinate_conditions,
    gather_elements,
    gather_nd,
    index_tensor,
    leading_conditions,
)
from structir.ops.layout import broadcast_to
from structir.ops.reshape import reshape
from structir.projections.scalar_expr import ScalarExpr

Reduction = Literal["update", "add", "mul", "max", "min"]
MONOIDS = {"update": None, "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _reduced_signature(call: CallView, signature: str, conditions: str = "") -> ResolvedSignature:
    """Returns the signature with the monoid of `reduction`; `update` keeps the last write."""
    return ResolvedSignature(signature, conditions, "", {"monoid": MONOIDS[call["reduction"]]})


def _shape_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature where ranks or coordinate counts are known only at run time."""
    signature = "data[*s], indices[*t] @ I, updates[*u] -> y[*s]"
    return attrs.evolve(_reduced_signature(call, signature), sizes=True)


def _reject_ranks(call: CallView, ranks: Mapping[str, int | None]) -> NoReturn:
    """Raises the error of operands of unequal rank."""
    counts = {name: rank for name, rank in ranks.items() if rank is not None}
    listed = ", ".join([f"{rank} of {name}" for name, rank in counts.items()])
    least = min(counts, key=lambda name: counts[name])
    hint = rank_hint(least, counts[least], max(counts.values()))
    message = f"expected data, indices and updates of equal rank, found axes: {listed}"
    call.reject(message, hint, "E0304")


def scatter_elements_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which an index replaces the coordinate of the axis."""
    ranks = [call.rank(name) for name in ("data", "indices", "updates")]
    known_ranks = [rank for rank in ranks if rank is not None]
    if len(set(known_ranks)) > 1:
        _reject_ranks(call, dict(zip(("data", "indices", "updates"), ranks, strict=True)))
    if not known_ranks:
        return _shape_signature(call)
    axis, variables = call.axis("axis", known_ranks[0]), index_vars(known_ranks[0])
    out_indices = [
        "indices : n" + str(k) if k == axis else f"{i} : n{k}" for k, i in enumerate(variables)
    ]
    operands = [
        access_text("data", index_vars(known_ranks[0], "n")),
        access_text("indices", variables) + " @ I",
        access_text("updates", variables),
    ]
    sizes = call.dims("data")
    inside = call.index_condition(
        "indices", call.constants.get("indices"), f"n{axis}", sizes[axis] if sizes else None
    )
    checks = [f"n{k} >= {i}" for k, i in enumerate(variables) if k != axis]
    signature = f"{', '.join(operands)} -> {access_text('y', out_indices)}"
    return _reduced_signature(call, signature, where_text(inside, checks))


@op(scatter_elements_signature, base="data", reduce="monoid", reads_indices=True)
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
    targets = ScatterTargets(
        lambda x: emit(gather_elements(x, indices, axis)),
        lambda x, updates_cotangent, reduction: emit(
            scatter_elements(x, indices, updates_cotangent, axis, reduction)
        ),
    )
    reduction = call.attrs.get("reduction", "update")
    data_cotangent, updates_cotangent = COTANGENTS_BY_REDUCTION[reduction](
        data, updates, result, cotangent, targets, emit
    )
    return [data_cotangent, None, updates_cotangent]


def scatter_nd_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature in which the last axis of the indices holds coordinates."""
    rank, tuples = call.rank("data"), call.rank("indices")
    if tuples == 0:
        call.reject("indices: expected at least 1 axis, found a scalar", None, "E0304")
    sizes = call.dims("indices")
    count = sizes[-1] if sizes else None
    if rank is None or tuples is None or not isinstance(count, int):
        return _shape_signature(call)
    if count > rank:
        message = f"indices: expected at most {rank} coordinates along the last axis"
        call.reject(f"{message}, found {count}")
    outer, slice_variables = index_vars(tuples - 1, "j"), index_vars(rank - count, "t")
    out_indices = [f"indices[{', '.join([*outer, str(k)])}] : n{k}" for k in range(count)]
    out_indices += [f"{e} : n{count + k}" for k, e in enumerate(slice_variables)]
    operands = [
        access_text("data", index_vars(rank, "n")),
        access_text("indices", [*outer, str(count)]) + " @ I",
        access_text("updates", [*outer, *slice_variables]),
    ]
    checks = [f"{e} == n{count + k}" for k, e in enumerate(slice_variables)]
    return _reduced_signature(
        call,
        f"{', '.join(operands)} -> {access_text('y', out_indices)}",
        where_text(checks, coordinate_conditions(call, count)),
    )


@op(scatter_nd_signature, base="data", reduce="monoid", reads_sizes=True, reads_indices=True)
def scatter_nd(
    data: ScalarExpr, indices: ScalarExpr, updates: ScalarExpr, reduction: Reduction = "update"
) -> ScalarExpr:
    """Writes or combines slices of updates at index tuples."""
    return updates


@scatter_nd.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    data, indices, updates = call.args
    targets = ScatterTargets(
        lambda x: emit(gather_nd(x, indices)),
        lambda x, updates_cotangent, reduction: emit(
            scatter_nd(x, indices, updates_cotangent, reduction)
        ),
    )
    reduction = call.attrs.get("reduction", "update")
    data_cotangent, updates_cotangent = COTANGENTS_BY_REDUCTION[reduction](
        data, updates, result, cotangent, targets, emit
    )
    return [data_cotangent, None, updates_cotangent]


def index_put_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of one index tensor per leading axis, all broadcast to the updates."""
    count, rank = len(call.info("indices")), call.rank("data")
    if not count:
        call.reject("indices: expected at least one index tensor, found none")
    names = [f"indices_{k}" for k in range(count)]
    attributes = {"monoid": "sum" if call["accumulate"] else None}
    if rank is None or None in call.ranks("indices"):
        others = ", ".join([f"{name}[*t{k}] @ I" for k, name in enumerate(names)])
        signature = f"data[*s], {others}, values[*u] -> y[*s]"
        return ResolvedSignature(signature, "", "", attributes, sizes=True)
    if count > rank:
        call.reject(f"indices: expected at most {rank} index tensors, found {count}")
    slice_variables = index_vars(rank - count, "t")
    out_indices = [f"{name} : n{k}" for k, name in enumerate(names)]
    out_indices += [f"{e} : n{count + k}" for k, e in enumerate(slice_variables)]
    others = ", ".join([f"{name}[~b] @ I" for name in names])
    data, values = (
        access_text("data", index_vars(rank, "n")),
        access_text("values", ["~b", *slice_variables]),
    )
    checks = [f"{e} == n{count + k}" for k, e in enumerate(slice_variables)]
    signature = f"{data}, {others}, {values} -> {access_text('y', out_indices)}"
    checks.append(leading_conditions(call, names))
    return ResolvedSignature(signature, where_text(checks), "", attributes)


@op(index_put_signature, base="data", reduce="monoid", reads_indices=True)
def index_put(
    data: ScalarExpr, indices: Operands, values: ScalarExpr, accumulate: bool = False
) -> ScalarExpr:
    """Writes or adds values at broadcast index tensors."""
    return values


@index_put.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    data, indices, values = call.args
    targets = ScatterTargets(
        lambda x: emit(index_tensor(x, indices)),
        lambda x, values_cotangent, reduction: emit(
            index_put(x, indices, values_cotangent, reduction == "add")
        ),
    )
    reduction = "add" if call.attrs.get("accumulate", False) else "update"
    broadcast_values = emit(broadcast_to(values, sizes_of(targets.read(data))))
    data_cotangent, values_cotangent = COTANGENTS_BY_REDUCTION[reduction](
        data, broadcast_values, result, cotangent, targets, emit
    )
    return [data_cotangent, None, collapse_sum_to(values_cotangent, sizes_of(values))]


def slice_scatter_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature that writes at the slice `start : end : step` of an axis."""
    rank, start, end, step = call.rank("x"), call["start"], call["end"], call["step"]
    if rank is None:
        return ResolvedSignature("x[*s], src[*t] -> y[*s]", sizes=True)
    if isinstance(step, int) and step < 1:
        call.reject(f"step: expected a positive number, found {step}")
    axis, variables, sizes = call.axis("axis", rank), index_vars(rank), call.dims("x")
    out_indices = [
        f"start + step * {i} : n{k}" if k == axis else f"{i} : n{k}"
        for k, i in enumerate(variables)
    ]
    checks = [f"{i} == n{k}" for k, i in enumerate(variables) if k != axis]
    attributes: dict[str, Dim] = {}
    if sizes is not None and UNKNOWN not in (start, end, step):
        size = sizes[axis]
        first, last = _normalize_bound(start, size), dim_min(_normalize_bound(end, size), size)
        attributes |= {"start": first, "count": dim_max(ceildiv(last - first, step), 0)}
        checks.append(f"{variables[axis]} == count")
        if isinstance(step, Poly):  # an empty axis leaves no division by the step to fail
            attributes["step_is_0"] = compare("eq", step, 0)
            checks.append("step_is_0 == 0")
    data, source = access_text("x", index_vars(rank, "n")), access_text("src", variables)
    return ResolvedSignature(
        f"{data}, {source} -> {access_text('y', out_indices)}", where_text(checks), "", attributes
    )


def _normalize_bound(bound: Dim, size: Dim) -> Dim:
    """Converts a negative bound to a position from the start, clamped to 0."""
    return dim_max(bound + size, 0) if isinstance(bound, int) and bound < 0 else bound


@op(slice_scatter_signature, base="x", reads_sizes=True)
def slice_scatter(
    x: ScalarExpr, src: ScalarExpr, start: Size, end: Size, step: Size = 1, axis: Axis = 0
) -> ScalarExpr:
    """Replaces a slice along one axis."""
    return src


# The cotangents of the data and of the updates, by reduction.


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
    text = "not differentiable: the shapes of its operands are unknown"
    raise DiagnosticError(Diagnostic(text, x.span, code="E0307"))


def _update_cotangents(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, targets: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Propagates to the last update of each element, and to unmodified data."""
    dims = sizes_of(updates)
    numbers = emit(reshape(arange(prod(dims)), dims))
    last = targets.write(full_like(data, -1, "int64"), numbers, "update")
    is_last = equal(targets.read(last), numbers)
    return (
        where(equal(last, -1), cotangent, zeros_like(data)),
        where(is_last, targets.read(cotangent), zeros_like(updates)),
    )


def _sum_cotangents(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, targets: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    return cotangent, targets.read(cotangent)


def _extreme_cotangents(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, targets: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Divides the cotangent among the elements equal to the result."""
    dtype = data.struct_info.dtype
    data_hits = emit(astype(equal(data, result), dtype))
    update_hits = emit(astype(equal(updates, targets.read(result)), dtype))
    share = emit(cotangent / targets.write(data_hits, update_hits, "add"))
    return data_hits * share, update_hits * targets.read(share)


def _product_cotangents(
    data: Expr, updates: Expr, result: Expr, cotangent: Expr, targets: ScatterTargets, emit: Emit
) -> tuple[Expr, Expr]:
    """Multiplies by the product of the other factors, with zeros handled separately."""
    dtype = data.struct_info.dtype
    zeros = [emit(equal(x, 0)) for x in (data, updates)]
    factors = [
        emit(where(zero, ones_like(x), x)) for zero, x in zip(zeros, (data, updates), strict=True)
    ]
    zero_counts = targets.write(astype(zeros[0], dtype), emit(astype(zeros[1], dtype)), "add")
    products = targets.write(factors[0], factors[1], "mul")
    cotangents = []
    for zero, x, count, product_of_rest, upstream in zip(
        zeros,
        factors,
        (zero_counts, targets.read(zero_counts)),
        (products, targets.read(products)),
        (cotangent, targets.read(cotangent)),
        strict=True,
    ):
        no_zeros, only_zero = equal(count, 0), logical_and(equal(count, 1), zero)
        derivative = where(
            no_zeros, product_of_rest / x, where(only_zero, product_of_rest, zeros_like(x))
        )
        cotangents.append(upstream * derivative)
    return cotangents[0], cotangents[1]


COTANGENTS_BY_REDUCTION = {
    "update": _update_cotangents,
    "add": _sum_cotangents,
    "mul": _product_cotangents,
    "max": _extreme_cotangents,
    "min": _extreme_cotangents,
}

scatter_elements.example(f32[3, 4], i64[2, 4].below(3), f32[2, 4], axis=0, reduction="add")
scatter_nd.example(f32[3, 4], i64[2, 1].below(3), f32[2, 4])
index_put.example(f32[3, 4], [i64[2].below(3)], f32[2, 4], True)
slice_scatter.example(f32[6, 4], f32[3, 4], 0, 6, 2)
