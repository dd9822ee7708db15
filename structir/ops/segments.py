"""Ops on the rows of a ragged tensor, which are segments of its values.

Row k of the values are the elements from `starts[k]` up to `limits[k]`. Rows are in order and have
no gaps: the limit of a row is the start of the next one.
"""

from __future__ import annotations

from typing import Any

from structir.ir.dtype import NARROW_FLOATS, dtype_name, int_limits, is_float
from structir.ir.expr import Call, Expr, PrimValue
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.opdef.attributes import Size
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, f32
from structir.opdef.index_vars import access_text, index_vars
from structir.ops.broadcast import add, equal, logical_and, logical_or, maximum, subtract, where
from structir.ops.create import arange, ones_like, zeros_like
from structir.ops.elementwise import astype
from structir.ops.indexing import take
from structir.ops.reduce import argmax, argmin, max_, min_, prod, sum_
from structir.projections.row_blocks import RESULT, RowBlocks
from structir.projections.scalar_expr import ScalarExpr

np = lazy_module("numpy")
Array = Any
ROW = "max(min(ids, size(n) - 1), 0) : n"
ROWS = f"starts[{ROW}] @ int64, limits[{ROW}] @ int64"


@op("starts[[n]] @ int64, limits[[n]] @ int64 -> ids[[t]] @ int64", where="t == total")
def segment_ids(starts: Array, limits: Array, total: Size) -> Array:
    """Computes the number of the row that each of `total` values belongs to."""
    return starts


@segment_ids.reference
def _(starts: Array, limits: Array, total: int) -> Array:
    ids = np.zeros(total, "int64")
    for row, (start, limit) in enumerate(zip(starts, limits, strict=True)):
        ids[max(start, 0) : max(limit, 0)] = row
    return ids


@segment_ids.kernel("cpu")
def _(starts: Array, limits: Array, ids: Array) -> None:
    for k in range(ids.shape[0]):
        ids[k] = 0
    for row in range(starts.shape[0]):
        for k in range(max(starts[row], 0), min(limits[row], ids.shape[0])):
            ids[k] = row


segment_ids.no_gradient("row numbers are integers")
segment_ids.row_blocks(RowBlocks({RESULT: 0}, {0: RESULT, 1: RESULT}, row_numbers=(RESULT,)))


def contiguous_rows_signature(call: CallView) -> str:
    """Returns the signature, in which the kernel gets all axes of the values."""
    rank = call.rank("values")
    entries = ["[t]", "*k"] if rank is None else [f"[{i}]" for i in index_vars(rank)]
    reads = f"starts[[n]] @ int64, limits[[n]] @ int64, {access_text('values', entries)}"
    return f"{reads} -> out[[n]] @ int64"


@op(contiguous_rows_signature, name="ragged.contiguous_rows")
def contiguous_rows(starts: Array, limits: Array, values: Array) -> Array:
    """Returns the row starts; checks that rows are in order, without gaps, and have all values.

    A call fails (E0731) unless the first row starts at 0, each other one at the limit of the row
    before, and the last one ends at the number of values.
    """
    return starts


@contiguous_rows.reference
def _(starts: Array, limits: Array, values: Array) -> Array:
    total = len(values)
    wrong = np.append(starts, total) != np.insert(limits, 0, 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        place = f"the start of row {row}" if row < len(starts) else "the end of the last row"
        pair = ([0, *limits][row], [*starts, total][row])
        expected, actual = pair if row < len(starts) else pair[::-1]
        raise ValueError(f"{place}: expected {expected}, found {actual}")
    if (limits < starts).any():
        row = int(np.flatnonzero(limits < starts)[0])
        message = f"row {row}: expected a limit of at least {starts[row]}, found {limits[row]}"
        raise ValueError(message)
    return starts


GAPS = "expected rows in order that have all values, found others"
contiguous_rows.rejects_values(
    GAPS,
    code="E0731",
    hint="copy the values of the rows one after another, and compute the ends from the lengths: "
    "`limits = R.cumsum(lengths, axis=0)`, `starts = limits - lengths`",
    shown="ragged.from_values",
)


@contiguous_rows.kernel("cpu")
def _(starts: Array, limits: Array, values: Array, out: Array) -> None:
    end = 0
    for row in range(starts.shape[0]):
        if starts[row] != end or limits[row] < end:
            raise ValueError(GAPS)
        out[row] = end
        end = limits[row]
    if end != values.shape[0]:
        raise ValueError(GAPS)


contiguous_rows.no_gradient("row starts are integers")
contiguous_rows.row_blocks(RowBlocks({2: 0}, {0: 2, 1: 2, RESULT: 2}))


@op(f"x[{ROW}, *k], ids[t] @ int64, {ROWS} -> y[t, *k]")
def segment_expand(
    x: ScalarExpr, ids: ScalarExpr, starts: ScalarExpr, limits: ScalarExpr
) -> ScalarExpr:
    """Repeats the slice of each row for every value of the row; `ids` are the rows of values."""
    return x


segment_expand.row_blocks(RowBlocks({1: 2, RESULT: 2}, {2: RESULT, 3: RESULT}, row_numbers=(1,)))


@segment_expand.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    _x, _ids, starts, limits = call.args
    return [emit(segment_sum(cotangent, starts, limits)), None, None, None]


def neutral(reduction: str, dtype: str | None) -> Any:
    """Returns the result of a reduction of no elements."""
    if reduction in ("sum", "prod"):
        return 0 if reduction == "sum" else 1
    if dtype is None or is_float(dtype):
        return -float("inf") if reduction == "max" else float("inf")
    if dtype == "bool":
        return int(reduction == "min")
    low, high = int_limits(dtype)
    return low if reduction == "max" else high


def segment_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature, in which the body receives the values of all rows."""
    reduction = call.op.removeprefix("segment_")
    signature = "values[[t], *k], starts[[n]] @ int64, limits[[n]] @ int64 -> out[[n], *k]"
    first = neutral(reduction, call.info("values").dtype)
    return ResolvedSignature(signature, "", "", {"first": first})


@op(segment_signature)
def segment_sum(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the sum of each row of values; 0 for an empty row."""
    return values


@op(segment_signature)
def segment_prod(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the product of each row of values; 1 for an empty row."""
    return values


@op(segment_signature)
def segment_max(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the maximum of each row of values; the least number for an empty row."""
    return values


@op(segment_signature)
def segment_min(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the minimum of each row of values; the greatest number for an empty row."""
    return values


POSITIONS = "values[[t], *k], starts[[n]] @ int64, limits[[n]] @ int64 -> out[[n], *k] @ int64"


@op(POSITIONS)
def segment_argmax(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the index in its row of the first maximum of each row; 0 for an empty row."""
    return values


@op(POSITIONS)
def segment_argmin(values: Array, starts: Array, limits: Array) -> Array:
    """Computes the index in its row of the first minimum of each row; 0 for an empty row."""
    return values


CONCAT = "x[[t], *k], x_starts[[n]] @ int64, x_limits[[n]] @ int64, y[[s], *k], "
CONCAT += "y_starts[[n]] @ int64, y_limits[[n]] @ int64, starts[[n]] @ int64 -> out[[u], *k]"


@op(CONCAT, where="u == t + s")
def concat_rows(
    x: Array,
    x_starts: Array,
    x_limits: Array,
    y: Array,
    y_starts: Array,
    y_limits: Array,
    starts: Array,
) -> Array:
    """Concatenates each row of `x` with the row of `y` of the same number; row k of the result
    begins at `starts[k]`. Values that belong to no row are 0."""
    return x


@concat_rows.reference
def _(
    x: Array,
    x_starts: Array,
    x_limits: Array,
    y: Array,
    y_starts: Array,
    y_limits: Array,
    starts: Array,
) -> Array:
    out = np.zeros((len(x) + len(y), *x.shape[1:]), x.dtype)
    for row, start in enumerate(np.maximum(starts, 0)):
        own, other = [
            values[max(first[row], 0) : max(limits[row], 0)]
            for values, first, limits in ((x, x_starts, x_limits), (y, y_starts, y_limits))
        ]
        joined = np.concatenate((own, other))[: max(len(out) - start, 0)]
        out[start : start + len(joined)] = joined
    return out


@concat_rows.kernel("cpu")
def _(
    x: Array,
    x_starts: Array,
    x_limits: Array,
    y: Array,
    y_starts: Array,
    y_limits: Array,
    starts: Array,
    out: Array,
) -> None:
    filled = 0  # values before this one are written
    for row in range(starts.shape[0]):
        at = max(starts[row], 0)
        for k in range(filled, min(at, out.shape[0])):
            out[k] = 0
        for k in range(max(x_starts[row], 0), min(x_limits[row], x.shape[0])):
            if at < out.shape[0]:
                out[at] = x[k]
            at += 1
        for k in range(max(y_starts[row], 0), min(y_limits[row], y.shape[0])):
            if at < out.shape[0]:
                out[at] = y[k]
            at += 1
        filled = max(filled, at)
    for k in range(filled, out.shape[0]):
        out[k] = 0


concat_rows.copies_rows()
concat_rows.row_blocks(
    RowBlocks({0: 1, 3: 4, RESULT: 6}, {1: 0, 2: 0, 4: 3, 5: 3, 6: RESULT}, whole_rows=True)
)


@concat_rows.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Takes the rows of each operand from the cotangent of the result."""
    x, x_starts, x_limits, y, y_starts, y_limits, starts = call.args
    lengths = emit(subtract(x_limits, x_starts))
    parts = (x, x_starts, x_limits, starts), (y, y_starts, y_limits, emit(add(starts, lengths)))
    cotangents: list[Cotangent] = []
    for values, own, limits, begin in parts:
        dims: Any = values.struct_info.dims
        ids = emit(segment_ids(own, limits, PrimValue(dims[0])))
        moved = emit(segment_expand(emit(subtract(begin, own)), ids, own, limits))
        index = emit(add(moved, emit(arange(PrimValue(dims[0]), dtype="int64"))))
        cotangents += [emit(take(cotangent, index, axis=0)), None, None]
    return [*cotangents, None]


SEGMENT_OPS = {
    "sum": segment_sum,
    "prod": segment_prod,
    "max": segment_max,
    "min": segment_min,
    "argmax": segment_argmax,
    "argmin": segment_argmin,
}


def _combined(combine: Any, values: Array, starts: Array, limits: Array, first: Any) -> Array:
    """Combines the values of each row; numbers of 16 bits as float32. An overflow is infinity,
    without a warning, as in kernels."""
    out = np.full((len(starts), *values.shape[1:]), first, values.dtype)
    is_narrow = dtype_name(values.dtype) in NARROW_FLOATS
    dtype = np.dtype("float32") if is_narrow else values.dtype
    with np.errstate(over="ignore"):
        for row, (start, limit) in enumerate(zip(starts, limits, strict=True)):
            part = values[max(start, 0) : max(limit, 0)]
            if len(part):
                out[row] = combine.reduce(part, axis=0, dtype=dtype)
    return out


@segment_sum.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _combined(np.add, values, starts, limits, 0)


@segment_prod.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _combined(np.multiply, values, starts, limits, 1)


@segment_max.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _combined(np.maximum, values, starts, limits, neutral("max", dtype_name(values.dtype)))


@segment_min.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _combined(np.minimum, values, starts, limits, neutral("min", dtype_name(values.dtype)))


@segment_sum.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, first: int, out: Array) -> None:
    for row in range(starts.shape[0]):
        out[row] = first
        for k in range(max(starts[row], 0), min(limits[row], values.shape[0])):
            out[row] += values[k]


@segment_prod.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, first: int, out: Array) -> None:
    for row in range(starts.shape[0]):
        out[row] = first
        for k in range(max(starts[row], 0), min(limits[row], values.shape[0])):
            out[row] *= values[k]


@segment_max.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, first: int, out: Array) -> None:
    for row in range(starts.shape[0]):
        out[row] = first
        for k in range(max(starts[row], 0), min(limits[row], values.shape[0])):
            value = values[k]
            if value > out[row] or value != value:
                out[row] = value


@segment_min.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, first: int, out: Array) -> None:
    for row in range(starts.shape[0]):
        out[row] = first
        for k in range(max(starts[row], 0), min(limits[row], values.shape[0])):
            value = values[k]
            if value < out[row] or value != value:
                out[row] = value


def _positions(find: Any, values: Array, starts: Array, limits: Array) -> Array:
    """Returns the index of the first extreme of each row."""
    out = np.zeros((len(starts), *values.shape[1:]), "int64")
    for row, (start, limit) in enumerate(zip(starts, limits, strict=True)):
        part = values[max(start, 0) : max(limit, 0)]
        if len(part):
            out[row] = find(part, axis=0)
    return out


@segment_argmax.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _positions(np.argmax, values, starts, limits)


@segment_argmin.reference
def _(values: Array, starts: Array, limits: Array) -> Array:
    return _positions(np.argmin, values, starts, limits)


@segment_argmax.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, out: Array) -> None:
    for row in range(starts.shape[0]):
        first, out[row] = max(starts[row], 0), 0
        for k in range(first, min(limits[row], values.shape[0])):
            value, best = values[k], values[first + out[row]]
            if value > best or (value != value and best == best):
                out[row] = k - first


@segment_argmin.kernel("cpu")
def _(values: Array, starts: Array, limits: Array, out: Array) -> None:
    for row in range(starts.shape[0]):
        first, out[row] = max(starts[row], 0), 0
        for k in range(first, min(limits[row], values.shape[0])):
            value, best = values[k], values[first + out[row]]
            if value < best or (value != value and best == best):
                out[row] = k - first


OF_SEGMENTS = RowBlocks({0: 1}, {1: 0, 2: 0})
segment_sum.row_blocks(OF_SEGMENTS)
segment_prod.row_blocks(OF_SEGMENTS)
segment_max.row_blocks(OF_SEGMENTS)
segment_min.row_blocks(OF_SEGMENTS)
segment_argmax.row_blocks(OF_SEGMENTS)
segment_argmin.row_blocks(OF_SEGMENTS)
segment_sum.row(sum_)
segment_prod.row(prod)
segment_max.row(max_)
segment_min.row(min_)
segment_argmax.row(argmax)
segment_argmin.row(argmin)
segment_argmax.no_gradient("positions are integers")
segment_argmin.no_gradient("positions are integers")


def _ids_of(call: Call, emit: Emit) -> Expr:
    """Returns the row of each value."""
    values, starts, limits = call.args
    dims: Any = values.struct_info.dims
    return emit(segment_ids(starts, limits, PrimValue(dims[0])))


@segment_sum.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    _, starts, limits = call.args
    return [emit(segment_expand(cotangent, _ids_of(call, emit), starts, limits)), None, None]


@segment_max.gradient
@segment_min.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Divides the cotangent among the elements that are equal to the extreme."""
    values, starts, limits = call.args
    ids = _ids_of(call, emit)
    dtype = values.struct_info.dtype
    extremes = emit(segment_expand(result, ids, starts, limits))
    hits = emit(astype(equal(values, extremes), dtype))
    counts = emit(segment_sum(hits, starts, limits))
    share = emit(cotangent / emit(maximum(counts, ones_like(counts))))
    return [emit(hits * emit(segment_expand(share, ids, starts, limits))), None, None]


@segment_prod.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Multiplies by the product of the other factors, with zeros handled separately."""
    values, starts, limits = call.args
    ids, dtype = _ids_of(call, emit), values.struct_info.dtype

    def expand(x: Expr) -> Expr:
        return emit(segment_expand(x, ids, starts, limits))

    zero = emit(equal(values, zeros_like(values)))
    factors = emit(where(zero, ones_like(values), values))
    zeros = expand(emit(segment_sum(emit(astype(zero, dtype)), starts, limits)))
    others = emit(expand(emit(segment_prod(factors, starts, limits))) / factors)
    only = emit(logical_and(zero, emit(equal(zeros, ones_like(zeros)))))
    none = emit(equal(zeros, zeros_like(zeros)))
    kept = emit(where(emit(logical_or(only, none)), others, zeros_like(others)))
    return [emit(expand(cotangent) * kept), None, None]


STARTS, LIMITS = ExactValues("int64", (0, 2, 2)), ExactValues("int64", (2, 2, 5))
contiguous_rows.example(STARTS, LIMITS, f32[5, 2])
segment_ids.example(STARTS, LIMITS, 5)
segment_expand.example(f32[3, 2], ExactValues("int64", (0, 0, 2, 2, 2)), STARTS, LIMITS)
segment_sum.example(f32[5, 2], STARTS, LIMITS)
segment_prod.example(f32[5, 2], STARTS, LIMITS)
segment_max.example(f32[5, 2], STARTS, LIMITS)
segment_min.example(f32[5], STARTS, LIMITS)
segment_argmax.example(f32[5, 2], STARTS, LIMITS)
segment_argmin.example(f32[5], STARTS, LIMITS)
concat_rows.example(
    f32[5, 2],
    STARTS,
    LIMITS,
    f32[3, 2],
    ExactValues("int64", (0, 1, 3)),
    ExactValues("int64", (1, 3, 3)),
    ExactValues("int64", (0, 3, 5)),
)
