"""Ops with data-dependent result sizes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, Tuple
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Emit
from structir.opdef.attributes import Axis, Size
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import Sample, i64
from structir.opdef.index_vars import access_text
from structir.ops.broadcast import (
    add,
    equal,
    floor_divide,
    logical_and,
    logical_or,
    minimum,
    multiply,
    not_equal,
    subtract,
    where,
)
from structir.ops.create import arange, full, full_like, ones_like, zeros_like
from structir.ops.elementwise import astype
from structir.ops.indexing import take
from structir.ops.joined import concat
from structir.ops.layout import permute_dims
from structir.ops.reduce import sum_
from structir.ops.reshape import reshape
from structir.ops.scan import cumsum
from structir.ops.scatter import scatter_elements
from structir.ops.slices import strided_slice
from structir.ops.sort import argsort, sort, sortable

np = lazy_module("numpy")
Array = Any
Count = Callable[[Expr], Dim]


def unique_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of the values and the requested index vectors."""
    rank = call.rank("x")
    values = "y[_]"
    if call["axis"] is not None:
        if rank is not None:
            call.axis("axis", rank)
        values = "y[*u]" if rank is None else access_text("y", ["_"] * rank)
    flags = ("return_index", "return_inverse", "return_counts")
    vectors = [f"{flag}[_] @ int64" for flag in flags if call[flag]]
    return ResolvedSignature(f"x[*s] -> {', '.join([values, *vectors])}")


@op(unique_signature)
def unique(
    x: Array,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Axis | None = None,
) -> Any:
    """Computes the distinct elements, or slices along an axis, sorted or in order of occurrence."""
    return x


@unique.reference
def _(
    x: Array,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    values, index, inverse, counts = np.unique(sortable(x), True, True, True, axis=axis)
    values = values.astype(x.dtype)
    if not sorted:
        order = np.argsort(index)
        values, index, counts = np.take(values, order, axis=axis or 0), index[order], counts[order]
        inverse = np.argsort(order)[inverse]
    outputs = zip(
        (return_index, return_inverse, return_counts), (index, inverse, counts), strict=True
    )
    vectors = [
        vector.reshape(-1).astype("int64") for is_requested, vector in outputs if is_requested
    ]
    return (values, *vectors) if vectors else values


unique.non_differentiable("the number of distinct elements depends on their values")


@op("x[*s] -> out[_, _] @ int64")
def nonzero(x: Array) -> Array:
    """Computes the coordinates of nonzero elements, one row per axis."""
    return x


@nonzero.reference
def _(x: Array) -> Array:
    return np.argwhere(np.atleast_1d(x)).T.astype("int64")


@op("mask[[n]] @ bool -> positions[[k]] @ int64", where="k == size")
def true_positions(mask: Array, size: Size) -> Array:
    """Computes the positions of the first `size` true elements, in order, and then -1."""
    return mask


@true_positions.reference
def _(mask: Array, size: int) -> Array:
    positions = np.flatnonzero(mask)[:size].astype("int64")
    return np.pad(positions, (0, size - len(positions)), constant_values=-1)


@true_positions.kernel("cpu")
def _(mask: Array, positions: Array) -> None:
    """Writes each position where the next true one belongs: no branch depends on the mask."""
    filled = 0
    for k in range(mask.shape[0]):
        if filled == positions.shape[0]:
            break
        positions[filled] = k
        filled += mask[k]
    for k in range(filled, positions.shape[0]):
        positions[k] = -1


@true_positions.decompose
def _(mask: Expr, size: Dim) -> Expr:
    """Writes each position at its rank; those that do not belong to the result, behind its end."""
    total = mask.struct_info.dims[0]
    ranks = _ranks(mask)
    end = full_like(ranks, PrimValue(size))
    targets = where(mask, minimum(ranks, end), end)
    buffer = full((size + 1,), PrimValue(-1), "int64")
    positions = scatter_elements(buffer, targets, arange(total, dtype="int64"), axis=0)
    return strided_slice(positions, (0,), (0,), (size,))


true_positions.no_gradient("positions are integers")


@nonzero.counted
def _(x: Expr, emit: Emit, count: Count) -> Expr | None:
    sizes = x.struct_info.dims
    if not isinstance(sizes, tuple):
        return None
    sizes = sizes or (1,)
    is_true = x if x.struct_info.dtype == "bool" else not_equal(x, zeros_like(x))
    positions = _positions(emit(reshape(is_true, (prod(sizes),))), emit, count)
    rows: list[Expr] = []
    for size in reversed(sizes[1:]):
        extent = full_like(positions, PrimValue(size))
        quotient = emit(floor_divide(positions, extent))
        rows.insert(0, subtract(positions, multiply(quotient, extent)))
        positions = quotient
    one = (*positions.struct_info.dims, 1)
    parts = tuple([reshape(row, one) for row in (positions, *rows)])
    return permute_dims(concat(parts, axis=1) if rows else parts[0], (1, 0))


@unique.counted
def _(
    x: Expr,
    emit: Emit,
    count: Count,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Axis | None = None,
) -> Expr | None:
    """Selects the elements that differ from their predecessor in sorted order."""
    sizes = x.struct_info.dims
    if not (isinstance(sizes, tuple) and sorted and axis is None):
        return None
    total = prod(sizes)
    elements = emit(reshape(x, (total,)))
    if return_index or return_inverse:
        order = emit(argsort(elements, dtype="int64"))
        elements = emit(take(elements, order, 0))
    else:
        elements = emit(sort(elements))
    indices = emit(arange(total, dtype="int64"))
    is_first = equal(indices, zeros_like(indices))
    predecessors = emit(
        take(elements, where(is_first, indices, subtract(indices, ones_like(indices))), 0)
    )
    not_both_nan = logical_or(equal(elements, elements), equal(predecessors, predecessors))
    mask = emit(logical_or(is_first, logical_and(not_equal(elements, predecessors), not_both_nan)))
    positions = _positions(mask, emit, count)
    results = [emit(take(elements, positions, 0))]
    if return_index:
        results.append(emit(take(order, positions, 0)))
    if return_inverse:
        results.append(emit(scatter_elements(zeros_like(order), order, _ranks(mask), axis=0)))
    if return_counts:
        results.append(emit(subtract(_successors(positions, total), positions)))
    return Tuple(tuple(results)) if len(results) > 1 else results[0]


def _positions(mask: Expr, emit: Emit, count: Count) -> Expr:
    """Returns the positions of all true elements of a vector, which are counted first."""
    size = count(emit(reshape(sum_(astype(mask, "int64")), (1,))))
    return emit(true_positions(mask, PrimValue(size)))


def _ranks(mask: Expr) -> Expr:
    """Returns for each element of a vector the number of true ones up to it, less 1."""
    ones = astype(mask, "int64")
    return subtract(cumsum(ones, axis=0), ones_like(ones))


def _successors(positions: Expr, total: Dim) -> Expr:
    """Returns the next position for each one; `total` for the last."""
    (size,) = positions.struct_info.dims
    indices = arange(size, dtype="int64")
    last = full_like(indices, PrimValue(size - 1))
    following = take(positions, minimum(add(indices, ones_like(indices)), last), 0)
    return where(equal(indices, last), full_like(indices, PrimValue(total)), following)


nonzero.example(i64[2, 3].below(2))
true_positions.example(Sample("bool", (5,)), size=3)
unique.example(i64[2, 5])
unique.example(i64[2, 5].below(3), return_index=True, return_inverse=True, return_counts=True)
unique.example(i64[2, 5].below(2), return_index=True, return_counts=True, axis=1)
