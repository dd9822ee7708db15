"""Ops with data-dependent result sizes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs

from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, Tuple
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Emit
from structir.opdef.attributes import Axis
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import i64
from structir.opdef.index_vars import access_text
from structir.ops.broadcast import (
    equal,
    floor_divide,
    floor_mod,
    logical_and,
    logical_or,
    not_equal,
    subtract,
    where,
)
from structir.ops.create import arange, full_like, ones_like, zeros, zeros_like
from structir.ops.elementwise import astype
from structir.ops.indexing import take
from structir.ops.joined import concat
from structir.ops.layout import expand_dims
from structir.ops.reduce import sum_
from structir.ops.reshape import reshape
from structir.ops.scan import cumsum
from structir.ops.scatter import scatter_elements
from structir.ops.slices import strided_slice
from structir.ops.sort import argsort, sort

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
    values, index, inverse, counts = np.unique(x, True, True, True, axis=axis)
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


@nonzero.counted
def _(x: Expr, emit: Emit, count: Count) -> Expr | None:
    sizes = x.struct_info.dims
    if not isinstance(sizes, tuple):
        return None
    sizes = sizes or (1,)
    total = prod(sizes)
    mask = emit(reshape(not_equal(x, zeros_like(x)), (total,)))
    positions = emit(_Selection.of(mask, emit, count).compact(arange(total, dtype="int64")))
    rows = [
        expand_dims(
            floor_mod(floor_divide(positions, step), full_like(positions, PrimValue(size))), 0
        )
        for size, step in zip(sizes, _row_major_strides(sizes, positions), strict=True)
    ]
    return concat(tuple(rows), axis=0)


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
    positions = emit(arange(total, dtype="int64"))
    is_first = equal(positions, zeros_like(positions))
    predecessors = emit(
        take(elements, where(is_first, positions, subtract(positions, ones_like(positions))), 0)
    )
    not_both_nan = logical_or(equal(elements, elements), equal(predecessors, predecessors))
    mask = emit(logical_or(is_first, logical_and(not_equal(elements, predecessors), not_both_nan)))
    selection = _Selection.of(mask, emit, count)
    results = [emit(selection.compact(elements))]
    if return_index:
        results.append(emit(selection.compact(order)))
    if return_inverse:
        results.append(emit(scatter_elements(zeros_like(order), order, selection.ranks, axis=0)))
    if return_counts:
        ones = ones_like(selection.ranks)
        counts = zeros((selection.count,), "int64")
        counts = scatter_elements(counts, selection.ranks, ones, axis=0, reduction="add")
        results.append(emit(counts))
    return Tuple(tuple(results)) if len(results) > 1 else results[0]


@attrs.frozen
class _Selection:
    """The selected elements of a vector: a mask, their number, and for each element the number of
    selected ones up to it, less 1."""

    mask: Expr
    ranks: Expr
    count: Dim

    @staticmethod
    def of(mask: Expr, emit: Emit, count: Count) -> _Selection:
        """Counts the elements that a mask selects."""
        ones = emit(astype(mask, "int64"))
        ranks = emit(subtract(cumsum(ones, axis=0), ones_like(ones)))
        return _Selection(mask, ranks, count(emit(reshape(sum_(ones), (1,)))))

    def compact(self, values: Expr) -> Expr:
        """Returns the selected elements: each is written at its rank among them."""
        k = self.count
        targets = where(self.mask, self.ranks, full_like(self.ranks, PrimValue(k)))
        buffer = zeros((k + 1,), values.struct_info.dtype)
        return strided_slice(scatter_elements(buffer, targets, values, axis=0), (0,), (0,), (k,))


def _row_major_strides(sizes: tuple[Dim, ...], like: Expr) -> list[Expr]:
    """Returns the row-major stride of each axis."""
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return [full_like(like, PrimValue(step)) for step in strides]


nonzero.example(i64[2, 3].below(2))
unique.example(i64[2, 5])
unique.example(i64[2, 5].below(3), return_index=True, return_inverse=True, return_counts=True)
unique.example(i64[2, 5].below(2), return_index=True, return_counts=True, axis=1)
