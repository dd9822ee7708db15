"""Reads at data-dependent indices: take, gather, and indexing by tensors."""

from __future__ import annotations

import math
from typing import Literal

from structir.opdef.attributes import Axis, Operands
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, index_vars
from structir.projections.scalar_expr import ScalarExpr

PLACES = {
    "fast": "indices",
    "nan": "indices",
    "clip": "max(min(indices, size(n) - 1), 0)",
    "wrap": "(indices % size(n))",
}


def taken(given: CallView) -> ResolvedSignature:
    """Returns `x[*p, indices : n, *t], indices[*s] -> y[*p, *s, *t]`; a vector needs no axis."""
    place, dtype = PLACES[given["mode"]], "F" if given["mode"] == "nan" else "T"
    fill = {"fill": math.nan if given["mode"] == "nan" else 0}
    if given["axis"] is None:
        if given.rank("x") not in (None, 1):
            given.reject(
                f"axis: expected an axis for a tensor of rank {given.rank('x')}, found None"
            )
        line = f"x[{place} : n] @ {dtype}, indices[*s] @ I -> y[*s] @ {dtype}"
    else:
        read = f"x[*p, {place} : n, *t] @ {dtype}"
        line = f"{read}, indices[*s] @ I -> y[*p, *s, *t] @ {dtype}"
    return ResolvedSignature(line, "", "", fill)


@op(taken, at={"n": "axis"}, fill="fill")
def take(
    x: ScalarExpr,
    indices: ScalarExpr,
    axis: Axis | None = None,
    mode: Literal["fast", "clip", "wrap", "nan"] = "fast",
) -> ScalarExpr:
    """Reads slices at indices along an axis.

    `mode` defines indices out of range: `clip` reads the nearest element, `wrap` counts around the
    end, `nan` gives NaN and needs a floating-point dtype, and `fast` assumes none and gives 0.
    Negative indices are out of range.
    """
    return x


def gathered(given: CallView) -> str | ResolvedSignature:
    """Returns the signature in which an index replaces the coordinate of the axis."""
    left, right = given.rank("data"), given.rank("indices")
    if left is not None and right is not None and left != right:
        given.reject(f"indices: expected {left} axes as data, found {right}", None, "E0304")
    rank = left if right is None else right
    if rank is None:
        return ResolvedSignature("data[*s], indices[*t] @ I -> y[*t]", sizes=True)
    axis, own = given.axis("axis", rank), index_vars(rank)
    read = ["indices : n" if k == axis else f"{i} : n{k}" for k, i in enumerate(own)]
    return (
        f"{access_text('data', read)}, {access_text('indices', own)} @ I -> {access_text('y', own)}"
    )


@op(gathered)
def gather_elements(data: ScalarExpr, indices: ScalarExpr, axis: Axis = 0) -> ScalarExpr:
    """Reads one element per index along an axis, at the position of the index on others."""
    return data


def gathered_tuples(given: CallView) -> str | ResolvedSignature:
    """Returns the signature in which the last axis of the indices holds coordinates."""
    rank, tuples, batch = given.rank("data"), given.rank("indices"), given["batch_dims"]
    if (tuples is not None and batch >= tuples) or (rank is not None and batch >= rank):
        given.reject(f"batch_dims: expected an axis to index after it, found {batch}")
    if batch < 0:
        given.reject(f"batch_dims: expected at least 0, and axes of both tensors, found {batch}")
    if tuples == 0:
        given.reject("indices: expected at least 1 axis, found a scalar", None, "E0304")
    sizes = given.dims("indices")
    count = sizes[-1] if sizes else None
    if rank is None or tuples is None or not isinstance(count, int):
        return ResolvedSignature("data[*s], indices[*t] @ I -> y[*u]", sizes=True)
    if batch + count > rank:
        message = f"indices: expected at most {rank} coordinates along the last axis"
        given.reject(f"{message}, found {count}")
    own, outer = index_vars(rank), index_vars(tuples - 1, "j")
    own[:batch] = outer[:batch]
    for k in range(count):
        own[batch + k] = f"indices[{', '.join([*outer, str(k)])}] : n{k}"
    out = [*outer, *own[batch + count :]]
    reads = f"{access_text('data', own)}, {access_text('indices', [*outer, str(count)])} @ I"
    return f"{reads} -> {access_text('y', out)}"


@op(gathered_tuples, reads_sizes=True)
def gather_nd(data: ScalarExpr, indices: ScalarExpr, batch_dims: int = 0) -> ScalarExpr:
    """Reads slices at index tuples, which are the last axis of `indices`."""
    return data


def indexed(given: CallView) -> str | ResolvedSignature:
    """Returns the signature of one index tensor per leading axis; index tensors broadcast."""
    count, rank = len(given.info("indices")), given.rank("data")
    if not count:
        given.reject("indices: expected at least one index tensor, found none")
    names = [f"indices_{k}" for k in range(count)]
    if rank is None or None in given.ranks("indices"):
        others = ", ".join([f"{name}[*t{k}] @ I" for k, name in enumerate(names)])
        return ResolvedSignature(f"data[*s], {others} -> y[*u]", sizes=True)
    if count > rank:
        given.reject(f"indices: expected at most {rank} index tensors, found {count}")
    rest = index_vars(rank - count, "t")
    read = [*[f"{name} : n{k}" for k, name in enumerate(names)], *rest]
    others = ", ".join([f"{name}[~b] @ I" for name in names])
    return f"{access_text('data', read)}, {others} -> {access_text('y', ['~b', *rest])}"


@op(indexed)
def index_tensor(data: ScalarExpr, indices: Operands) -> ScalarExpr:
    """Reads slices at broadcast index tensors, as `data[i, j]` in NumPy."""
    return data


def sequences_reversed(given: CallView) -> str:
    """Returns the signature of reads that reverse the start of one axis."""
    rank = given.rank("x")
    if rank is None:
        return "x[*s], seq_lengths[n] @ I -> y[*s]"
    own, axis, batch = (
        index_vars(rank),
        given.axis("seq_axis", rank),
        given.axis("batch_axis", rank),
    )
    if axis == batch:
        given.reject("expected different axes seq_axis and batch_axis, found the same")
    i = own[axis]
    turned = f"seq_lengths - 1 - {i} if {i} < seq_lengths else {i}"
    read = [f"({turned}) : {i}" if k == axis else e for k, e in enumerate(own)]
    return f"{access_text('x', read)}, seq_lengths[{own[batch]}] @ I -> {access_text('y', own)}"


@op(sequences_reversed)
def reverse_sequence(
    x: ScalarExpr, seq_lengths: ScalarExpr, seq_axis: Axis = 1, batch_axis: Axis = 0
) -> ScalarExpr:
    """Reverses the first `seq_lengths` elements of each sequence of a batch."""
    return x


take.example(f32[5, 3], i64[2, 2].below(5), axis=0)
take.example(f32[5, 3], i64[4].below(9), axis=0, mode="wrap")
gather_elements.example(f32[3, 4], i64[3, 2].below(4), axis=1)
gather_nd.example(f32[3, 4, 2], i64[5, 2].below(3))
reverse_sequence.example(f32[3, 4], i64[3].below(5))
index_tensor.example(f32[3, 4, 2], [i64[2, 1].below(3), i64[2].below(4)])
