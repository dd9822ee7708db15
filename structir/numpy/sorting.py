"""Sorts, order statistics, counts and interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.struct_info import MAX_RANK
from structir.lazy import lazy_module
from structir.numpy.creation import arange, full, linspace, zeros, zeros_like
from structir.numpy.elementwise import (
    astype,
    clip,
    divide,
    isclose,
    isnan,
    maximum,
    nonzero_of,
    real,
    where,
)
from structir.numpy.indexing import take, take_along_axis
from structir.numpy.reals import ceil, floor
from structir.numpy.reductions import cumsum
from structir.numpy.shaping import (
    axis_of,
    broadcast_to,
    concatenate,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    stack,
)
from structir.numpy.updates import updated
from structir.script import R
from structir.tracing.array import (
    TracedArray,
    as_array,
    cast,
    emit,
    expression,
    of_rank,
    operand,
    promoted,
)
from structir.tracing.context import fields, traced

np = lazy_module("numpy")


@traced
def sort(
    a: Any, axis: int | None = -1, descending: bool = False, stable: bool = True
) -> TracedArray:
    """Returns the elements in ascending order along an axis."""
    array = ravel(a) if axis is None else operand(a)
    position = axis_of(-1 if axis is None else axis, array.ndim)
    return emit(R.sort(expression(array), axis=position, descending=descending))


@traced
def argsort(
    a: Any, axis: int | None = -1, descending: bool = False, stable: bool = True
) -> TracedArray:
    """Returns the indices that sort an axis, as int32; the sort is stable."""
    array = ravel(a) if axis is None else operand(a)
    if array.dtype_name == "bool":
        array = astype(array, "int8")
    position = axis_of(-1 if axis is None else axis, array.ndim)
    call = R.argsort(expression(array), axis=position, descending=descending, dtype="int32")
    return emit(call)


@traced
def lexsort(keys: Any, axis: int = -1) -> TracedArray:
    """Returns the indices that sort by several keys; the last one is the first criterion."""
    values = [of_rank(key, "lexsort: keys", 1, MAX_RANK) for key in keys]
    if not values:
        raise DiagnosticError(Diagnostic("lexsort: expected a key, found none", code="E1107"))
    order = argsort(values[0], axis)
    for key in values[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


@traced
def top_k(operand_: Any, k: int, axis: int = -1) -> tuple[TracedArray, TracedArray]:
    """Returns the k largest elements of an axis, and their indices as int32."""
    array = operand(operand_)
    position = axis_of(axis, array.ndim)
    if int(k) == 0:  # of which the op returns all
        prefix = (slice(None),) * position
        none = array[(*prefix, slice(0, 0))]
        return none, cast(none, "int32")
    call = R.topk(expression(array), k=int(k), axis=position, ret_type="both", dtype="int32")
    values, positions = fields(emit(call).expr)
    return TracedArray(values), TracedArray(positions)


@traced
def searchsorted(a: Any, v: Any, side: str = "left") -> TracedArray:
    """Returns the positions at which values keep a sorted vector sorted, as int32."""
    (table, values), _ = promoted(a, v)
    call = R.bucketize(expression(values), expression(table), out_int32=True, right=side == "right")
    return emit(call)


@traced
def digitize(x: Any, bins: Any, right: bool = False) -> TracedArray:
    """Returns the numbers of the bins of values, for ascending bins."""
    return searchsorted(bins, x, side="left" if right else "right")


@traced
def nonzero(a: Any, *, size: int | None = None, fill_value: Any = 0) -> tuple[TracedArray, ...]:
    """Returns the positions of the elements that are not zero, one array for each axis.

    With `size`, the first `size` positions; `fill_value` follows if there are fewer.
    """
    array = operand(a)
    if size is None:
        return nonzero_of(array)
    order = emit(R.true_positions(expression(ravel(astype(array, bool))), size=size))
    order = cast(order, "int32")
    is_hit = order >= 0
    positions: list[TracedArray] = []
    stride: Any = 1
    for length in reversed(array.shape):
        positions.insert(0, where(is_hit, order // stride % length, fill_value))
        stride = length * stride
    return tuple(positions)


@traced
def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = 0) -> TracedArray:
    """Returns the positions of the elements that are not zero among the elements as a vector."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


@traced
def argwhere(a: Any, *, size: int | None = None, fill_value: Any = 0) -> TracedArray:
    """Returns the positions of the elements that are not zero, as rows."""
    return stack(list(nonzero(a, size=size, fill_value=fill_value)), 1)


@traced
def bincount(x: Any, weights: Any = None, minlength: int = 0, length: Any = None) -> TracedArray:
    """Returns how often each number from 0 occurs; `length` is the number of counts."""
    values = operand(x)
    if length is None:
        raise TypeError("bincount: pass `length`: the number of counts is a size of the result")
    amounts = operand(1) if weights is None else real(weights)
    dtype = "int32" if weights is None else amounts.dtype_name
    return updated(zeros(length, dtype), values, broadcast_to(amounts, values.shape), "add")


@traced
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None) -> TracedArray:
    """Returns the edges of bins of equal width, or the edges that `bins` lists."""
    if np.ndim(bins) or isinstance(bins, TracedArray):
        return real(of_rank(bins, "histogram: bins", 1))
    if not isinstance(bins, int) or bins < 1:
        message = f"histogram: bins: expected a positive int or the edges, found {bins!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    values = real(a)
    low, high = (values.min(), values.max()) if range is None else map(real, range)
    widened = where(low == high, 0.5, 0.0)
    return linspace(low - widened, high + widened, bins + 1)


@traced
def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any]:
    """Returns the counts or sums of weights of elements in bins, and the edges of the bins."""
    values, edges = ravel(real(a)), histogram_bin_edges(a, bins, range)
    amounts = real(1.0) if weights is None else ravel(real(weights))
    last = edges.shape[0] - 1
    inside = (values >= edges[0]) & (values <= edges[-1])
    index = clip(searchsorted(edges, values, side="right") - 1, 0, last - 1)
    added = broadcast_to(where(inside, amounts, 0), values.shape)
    counts = updated(zeros(last, added.dtype_name), index, added, "add")
    if density:
        counts = counts / (edges[1:] - edges[:-1]) / counts.sum()
    return counts, edges


@traced
def quantile(
    a: Any,
    q: Any,
    axis: int | None = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> TracedArray:
    """Returns quantiles between elements; NaN where there is one. `q` is limited to [0, 1].

    The methods are linear, lower, higher, midpoint and nearest.
    """
    if method not in QUANTILE_METHODS:
        expected = ", ".join(QUANTILE_METHODS)
        message = f"quantile: method: expected one of {expected}, found {method!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    array = real(ravel(a) if axis is None else a)
    position = axis_of(0 if axis is None else axis, array.ndim)
    ordered = _ordered(array, position)
    fractions = as_array(q)
    places = clip(cast(fractions, array.dtype_name), 0, 1) * (ordered.shape[0] - 1)
    low = astype(floor(places), int)
    high = astype(ceil(places), int)
    share = (places - low).reshape((*fractions.shape, *[1] * (ordered.ndim - 1)))
    first, second = take(ordered, low, 0), take(ordered, high, 0)
    result = QUANTILE_METHODS[method](first, second, share)
    last = ordered[-1]  # NaNs are sorted behind all numbers
    return _kept_axes(where(isnan(last), last, result), a, axis, fractions.ndim, keepdims)


QUANTILE_METHODS: dict[str, Callable[..., TracedArray]] = {
    "linear": lambda low, high, share: where(low == high, low, low + (high - low) * share),
    "lower": lambda low, high, share: low,
    "higher": lambda low, high, share: high,
    "midpoint": lambda low, high, share: (low + high) / 2,
    "nearest": lambda low, high, share: where(share <= 0.5, low, high),
}


def _ordered(array: TracedArray, axis: int) -> TracedArray:
    """Returns the sorted elements along an axis, which becomes the first; one NaN for none."""
    ordered = moveaxis(sort(array, axis_of(axis, array.ndim)), axis, 0)
    if ordered.dims[0] == 0:
        return full((1, *ordered.shape[1:]), np.nan, ordered.dtype_name)
    return ordered


def _kept_axes(
    result: TracedArray, a: Any, axis: int | None, before: int, keepdims: bool
) -> TracedArray:
    """Returns a result with axes of size 1 for reduced ones, after the first axes."""
    if not keepdims:
        return result
    rank = operand(a).ndim
    if axis is None:
        return result.reshape((*result.shape, *[1] * rank))
    return expand_dims(result, before + axis_of(axis, rank))


@traced
def percentile(
    a: Any,
    q: Any,
    axis: int | None = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> TracedArray:
    """Returns percentiles between elements, by the methods of `quantile`."""
    fractions = q / 100 if isinstance(q, TracedArray) else np.asarray(q) / 100
    return quantile(a, fractions, axis, None, False, method, keepdims)


@traced
def median(
    a: Any,
    axis: int | None = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> TracedArray:
    """Returns the middle element, or the mean of the two in the middle; NaN where there is one."""
    array = real(ravel(a) if axis is None else a)
    ordered = _ordered(array, axis or 0)
    length = ordered.shape[0]
    middle = (ordered[(length - 1) // 2] + ordered[length // 2]) / 2
    last = ordered[-1]  # NaNs are sorted behind all numbers
    return _kept_axes(where(isnan(last), last, middle), a, axis, 0, keepdims)


@traced
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> TracedArray:
    """Returns the values at `x` of the piecewise linear function through (xp, fp)."""
    table, values = of_rank(xp, "interp: xp", 1), of_rank(fp, "interp: fp", 1)
    (points, table, values), _ = promoted(real(x), real(table), real(values))
    last = table.shape[0] - 1
    upper = clip(searchsorted(table, points, side="right"), 1, last)
    x0, x1 = take(table, upper - 1, 0), take(table, upper, 0)
    y0, y1 = take(values, upper - 1, 0), take(values, upper, 0)
    width = where(x1 == x0, 1, x1 - x0)
    inside = y0 + divide(points - x0, width) * (y1 - y0)
    below = values[0] if left is None else left
    above = values[-1] if right is None else right
    return where(points < table[0], below, where(points > table[-1], above, inside))


@traced
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Returns the distinct elements in ascending order; their number is known at run time.

    With `size`, the first `size` elements; `fill_value`, by default the smallest, follows. Further
    results are the first index of each element, the position of each element of `ar` among the
    distinct ones, and how often each one occurs.
    """
    array = ravel(ar)
    if size is None and not (return_index or return_inverse or return_counts):
        return emit(R.unique(expression(array)))
    order = argsort(array)
    ordered = take(array, order, 0)
    first = concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    if size is None:
        (positions,) = nonzero_of(first)
        values = take(ordered, positions, 0)
        ends = concatenate([positions[1:], reshape(operand(array.shape[0]), (1,))])
    else:
        (starts,) = nonzero(first, size=size + 1, fill_value=-1)
        positions = starts[:-1]
        filler = ordered[0] if fill_value is None else fill_value
        values = where(positions < 0, filler, take(ordered, positions, 0))
        ends = where(starts[1:] < 0, array.shape[0], starts[1:])
    results = [values]
    if return_index:
        results.append(take(order, maximum(positions, 0), 0))
    if return_inverse:
        ranks = cumsum(first) - 1
        results.append(reshape(updated(zeros_like(order), order, ranks, "set"), operand(ar).shape))
    if return_counts:
        results.append(where(positions < 0, 0, ends - positions))
    return tuple(results) if len(results) > 1 else values


@traced
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False
) -> TracedArray:
    """Returns whether elements occur among others; with `invert`, whether they do not."""
    array, others = operand(element), ravel(test_elements)
    result = (array[..., None] == others).any(-1)
    return ~result if invert else result


@traced
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> TracedArray:
    """Returns whether shapes and all elements are equal, as a bool of rank 0."""
    x, y = operand(a1), operand(a2)
    sizes = zip(x.dims, y.dims, strict=False)
    if x.ndim != y.ndim or not all(dims.equal(m, n) is not False for m, n in sizes):
        return operand(np.asarray(False))
    return ((x == y) | (isnan(x) & isnan(y)) if equal_nan else x == y).all()


@traced
def allclose(
    a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> TracedArray:
    """Returns whether all elements are close, as `isclose`."""
    return isclose(a, b, rtol, atol, equal_nan).all()


@traced
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[TracedArray, ...]:
    """Returns the positions on and below a diagonal of a matrix of known size."""
    rows, columns = np.tril_indices(int(n), k, m)
    return operand(rows.astype("int32")), operand(columns.astype("int32"))


@traced
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[TracedArray, ...]:
    """Returns the positions on and above a diagonal of a matrix of known size."""
    rows, columns = np.triu_indices(int(n), k, m)
    return operand(rows.astype("int32")), operand(columns.astype("int32"))


@traced
def tril_indices_from(arr: Any, k: int = 0) -> tuple[TracedArray, ...]:
    """Returns the positions on and below a diagonal of a matrix."""
    rows, columns = of_rank(arr, "tril_indices_from: arr", 2).shape
    return tril_indices(rows, k, int(columns))


@traced
def triu_indices_from(arr: Any, k: int = 0) -> tuple[TracedArray, ...]:
    """Returns the positions on and above a diagonal of a matrix."""
    rows, columns = of_rank(arr, "triu_indices_from: arr", 2).shape
    return triu_indices(rows, k, int(columns))


@traced
def diag_indices(n: int, ndim: int = 2) -> tuple[TracedArray, ...]:
    """Returns the positions of the diagonal of a matrix."""
    return (arange(n),) * ndim
