"""Reads at data-dependent indices: take, gather, and indexing by tensors."""

from __future__ import annotations

import math
from typing import Literal

from structir.opdef.attributes import Axis, Operands
from structir.opdef.call_view import CallView, ResolvedSignature, rank_hint
from structir.opdef.define import op
from structir.opdef.examples import f32, i64
from structir.opdef.index_vars import access_text, index_vars, where_text
from structir.projections.scalar_expr import ScalarExpr

INDEX_BY_MODE = {
    "fast": "indices",
    "nan": "indices",
    "clip": "max(min(indices, size(n) - 1), 0)",
    "wrap": "(indices % size(n))",
}


def take_signature(call: CallView) -> ResolvedSignature:
    """Returns `x[*p, indices : n, *t], indices[*s] -> y[*p, *s, *t]`; a vector needs no axis."""
    index, dtype = INDEX_BY_MODE[call["mode"]], "F" if call["mode"] == "nan" else "T"
    fill = {"fill": math.nan if call["mode"] == "nan" else 0}
    if call["axis"] is None:
        if call.rank("x") not in (None, 1):
            call.reject(f"axis: expected an axis for a tensor of rank {call.rank('x')}, found None")
        signature = f"x[{index} : n] @ {dtype}, indices[*s] @ I -> y[*s] @ {dtype}"
    else:
        read = f"x[*p, {index} : n, *t] @ {dtype}"
        signature = f"{read}, indices[*s] @ I -> y[*p, *s, *t] @ {dtype}"
    inside = _take_condition(call) if call["mode"] == "fast" else ""
    return ResolvedSignature(signature, inside, "", fill)


def _take_condition(call: CallView) -> str:
    sizes, axis = call.dims("x"), call["axis"] or 0
    known = sizes is not None and -len(sizes) <= axis < len(sizes)
    size = sizes[axis] if sizes and known else None
    return call.index_condition("indices", call.constants.get("indices"), "n", size)


@op(take_signature, at={"n": "axis"}, fill="fill", reads_indices=True)
def take(
    x: ScalarExpr,
    indices: ScalarExpr,
    axis: Axis | None = None,
    mode: Literal["fast", "clip", "wrap", "nan"] = "fast",
) -> ScalarExpr:
    """Reads slices at indices along an axis.

    `mode` defines reads out of range: `clip` reads the nearest element, `wrap` takes the index
    modulo the size, `nan` gives NaN and requires a floating-point dtype, and `fast` gives 0.
    Negative indices are out of range. With `fast`, a constant index out of range is an error, and
    passes may assume that other indices are in range.
    """
    return x


def gather_elements_signature(call: CallView) -> str | ResolvedSignature:
    """Returns the signature in which an index replaces the coordinate of the axis."""
    data_rank, indices_rank = call.rank("data"), call.rank("indices")
    if data_rank is not None and indices_rank is not None and data_rank != indices_rank:
        call.reject(
            f"indices: expected {data_rank} axes as data, found {indices_rank}",
            rank_hint("indices", indices_rank, data_rank),
            "E0304",
        )
    rank = data_rank if indices_rank is None else indices_rank
    if rank is None:
        return ResolvedSignature("data[*s], indices[*t] @ I -> y[*t]", sizes=True)
    axis, variables = call.axis("axis", rank), index_vars(rank)
    read = ["indices : n" if k == axis else f"{i} : n{k}" for k, i in enumerate(variables)]
    operands = f"{access_text('data', read)}, {access_text('indices', variables)} @ I"
    sizes = call.dims("data")
    inside = call.index_condition(
        "indices", call.constants.get("indices"), "n", sizes[axis] if sizes else None
    )
    checks = [f"n{k} >= {i}" for k, i in enumerate(variables) if k != axis]
    signature = f"{operands} -> {access_text('y', variables)}"
    return ResolvedSignature(signature, where_text(inside, checks))


@op(gather_elements_signature, reads_indices=True)
def gather_elements(data: ScalarExpr, indices: ScalarExpr, axis: Axis = 0) -> ScalarExpr:
    """Reads one element per index along an axis, at the position of the index on others."""
    return data


def gather_nd_signature(call: CallView) -> str | ResolvedSignature:
    """Returns the signature in which the last axis of the indices holds coordinates."""
    rank, tuples, batch = call.rank("data"), call.rank("indices"), call["batch_dims"]
    if (tuples is not None and batch >= tuples) or (rank is not None and batch >= rank):
        call.reject(f"batch_dims: expected fewer than the axes of data and indices, found {batch}")
    if batch < 0:
        call.reject(f"batch_dims: expected at least 0, found {batch}")
    if tuples == 0:
        call.reject("indices: expected at least 1 axis, found a scalar", None, "E0304")
    sizes = call.dims("indices")
    count = sizes[-1] if sizes else None
    if rank is None or tuples is None or not isinstance(count, int):
        return ResolvedSignature("data[*s], indices[*t] @ I -> y[*u]", sizes=True)
    if batch + count > rank:
        message = f"indices: expected at most {rank} coordinates along the last axis"
        call.reject(f"{message}, found {count}")
    variables, outer = index_vars(rank), index_vars(tuples - 1, "j")
    variables[:batch] = outer[:batch]
    for k in range(count):
        variables[batch + k] = f"indices[{', '.join([*outer, str(k)])}] : n{k}"
    out = [*outer, *variables[batch + count :]]
    reads = f"{access_text('data', variables)}, {access_text('indices', [*outer, str(count)])} @ I"
    return ResolvedSignature(
        f"{reads} -> {access_text('y', out)}", coordinate_conditions(call, count, batch)
    )


def coordinate_conditions(call: CallView, count: int, batch: int = 0) -> str:
    """Returns the conditions that constant index tuples are inside of the axes of `data`."""
    indices, sizes = call.constants.get("indices"), call.dims("data")
    if indices is None:
        return ""
    return where_text(
        call.index_condition(
            "indices", indices[..., k], f"n{k}", sizes[batch + k] if sizes else None
        )
        for k in range(count)
    )


@op(gather_nd_signature, reads_sizes=True, reads_indices=True)
def gather_nd(data: ScalarExpr, indices: ScalarExpr, batch_dims: int = 0) -> ScalarExpr:
    """Reads slices at index tuples, which are the last axis of `indices`."""
    return data


def index_tensor_signature(call: CallView) -> str | ResolvedSignature:
    """Returns the signature of one index tensor per leading axis; index tensors broadcast."""
    count, rank = len(call.info("indices")), call.rank("data")
    if not count:
        call.reject("indices: expected at least one index tensor, found none")
    names = [f"indices_{k}" for k in range(count)]
    if rank is None or None in call.ranks("indices"):
        others = ", ".join([f"{name}[*t{k}] @ I" for k, name in enumerate(names)])
        return ResolvedSignature(f"data[*s], {others} -> y[*u]", sizes=True)
    if count > rank:
        call.reject(f"indices: expected at most {rank} index tensors, found {count}")
    slice_variables = index_vars(rank - count, "t")
    read = [*[f"{name} : n{k}" for k, name in enumerate(names)], *slice_variables]
    others = ", ".join([f"{name}[~b] @ I" for name in names])
    out = access_text("y", ["~b", *slice_variables])
    signature = f"{access_text('data', read)}, {others} -> {out}"
    return ResolvedSignature(signature, leading_conditions(call, names))


def leading_conditions(call: CallView, names: list[str]) -> str:
    """Returns the conditions that constant index tensors are inside of the first axes of `data`."""
    sizes, constants = call.dims("data"), call.constants.get("indices", [None] * len(names))
    return where_text(
        call.index_condition(name, constants[k], f"n{k}", sizes[k] if sizes else None)
        for k, name in enumerate(names)
    )


@op(index_tensor_signature, reads_indices=True)
def index_tensor(data: ScalarExpr, indices: Operands) -> ScalarExpr:
    """Reads slices at broadcast index tensors, as `data[i, j]` in NumPy."""
    return data


def reverse_sequence_signature(call: CallView) -> str:
    """Returns the signature of reads that reverse the start of one axis."""
    rank = call.rank("x")
    if rank is None:
        return "x[*s], seq_lengths[n] @ I -> y[*s]"
    variables, axis, batch = (
        index_vars(rank),
        call.axis("seq_axis", rank),
        call.axis("batch_axis", rank),
    )
    if axis == batch:
        call.reject(f"seq_axis, batch_axis: expected different axes, found axis {axis} twice")
    i = variables[axis]
    reversed_index = f"seq_lengths - 1 - {i} if {i} < seq_lengths else {i}"
    read = [f"({reversed_index}) : {i}" if k == axis else e for k, e in enumerate(variables)]
    operands = f"{access_text('x', read)}, seq_lengths[{variables[batch]}] @ I"
    return f"{operands} -> {access_text('y', variables)}"


@op(reverse_sequence_signature)
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
