"""Sorts, order statistics, counts and interpolation."""

from __future__ import annotations

from typing import Any

from structir.lazy import lazy_module
from structir.numpy.creation import arange, zeros
from structir.numpy.elementwise import astype, clip, divide, nonzero_of, real, where
from structir.numpy.indexing import take, take_along_axis
from structir.numpy.shaping import axis_of, broadcast_to, concatenate, moveaxis, ravel, stack
from structir.numpy.updates import updated
from structir.script import R
from structir.tracing.array import (
    TracedArray,
    as_array,
    cast,
    emit,
    expression,
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
    values = [operand(key) for key in keys]
    order = argsort(values[0], axis)
    for key in values[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


@traced
def top_k(operand_: Any, k: int) -> tuple[TracedArray, TracedArray]:
    """Returns the k largest elements of the last axis, and their indices as int32."""
    array = operand(operand_)
    call = R.topk(expression(array), k=int(k), axis=-1, ret_type="both", dtype="int32")
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
    hits = ravel(astype(array, bool))
    order = argsort(~hits)[:size]
    missing = size - order.shape[0]
    if missing:
        order = concatenate([order, zeros(missing, "int32")])
    is_hit = arange(size) < hits.sum()
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
def histogram(a: Any, bins: Any = 10, range: Any = None) -> tuple[Any, Any]:
    """Returns the counts of elements in bins of equal width, and the edges of the bins."""
    values = ravel(real(a))
    low, high = (values.min(), values.max()) if range is None else (range[0], range[1])
    count = int(bins)
    edges = low + (high - low) * (arange(count + 1, dtype="float32") / count)
    inside = (values >= low) & (values <= high)
    index = clip(astype((values - low) / (high - low) * count, int), 0, count - 1)
    return updated(zeros(count, "float32"), index, astype(inside, float), "add"), edges


@traced
def quantile(
    a: Any,
    q: Any,
    axis: int | None = None,
    keepdims: bool = False,
    method: str = "linear",
) -> TracedArray:
    """Returns quantiles, interpolated linearly between elements."""
    if method != "linear":
        raise TypeError(f"quantile: expected the method linear, found {method!r}")
    array = real(ravel(a) if axis is None else a)
    position = axis_of(0 if axis is None else axis, array.ndim)
    ordered = moveaxis(sort(array, position), position, 0)
    places = cast(as_array(q), array.dtype_name) * (ordered.shape[0] - 1)
    low = astype(places // 1, int)
    fraction = places - low
    for _ in range(ordered.ndim - 1):
        fraction = fraction[..., None]
    first, second = take(ordered, low, 0), take(ordered, low + 1, 0)
    result = first + (second - first) * fraction
    return result if not keepdims else result[None]


@traced
def percentile(
    a: Any, q: Any, axis: int | None = None, keepdims: bool = False, method: str = "linear"
) -> TracedArray:
    """Returns percentiles, interpolated linearly between elements."""
    fractions = q / 100 if isinstance(q, TracedArray) else np.asarray(q) / 100
    return quantile(a, fractions, axis, keepdims, method)


@traced
def median(a: Any, axis: int | None = None, keepdims: bool = False) -> TracedArray:
    """Returns the middle element, or the mean of the two in the middle."""
    array = real(ravel(a) if axis is None else a)
    position = axis_of(0 if axis is None else axis, array.ndim)
    ordered = sort(array, position)
    length = ordered.shape[position]
    half = length // 2
    prefix = (slice(None),) * position
    low = (length - 1) // 2
    total = ordered[(*prefix, slice(low, low + 1))] + ordered[(*prefix, slice(half, half + 1))]
    result = total / 2
    return result if keepdims else result.squeeze(position)


@traced
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> TracedArray:
    """Returns the values at `x` of the piecewise linear function through (xp, fp)."""
    (points, table, values), _ = promoted(real(x), real(xp), real(fp))
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
def unique(a: Any, *, size: int | None = None, fill_value: Any = None) -> TracedArray:
    """Returns the distinct elements in ascending order; their number is known at run time.

    With `size`, the first `size` elements; `fill_value`, by default the smallest, follows.
    """
    array = ravel(a)
    if size is None:
        return emit(R.unique(expression(array)))
    ordered = sort(array)
    first = concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
    (positions,) = nonzero(first, size=size, fill_value=-1)
    filler = ordered[0] if fill_value is None else fill_value
    return where(positions < 0, filler, take(ordered, positions, 0))


@traced
def isin(element: Any, test_elements: Any) -> TracedArray:
    """Returns whether elements occur among others."""
    array, others = operand(element), ravel(test_elements)
    return (array[..., None] == others).any(-1)


@traced
def array_equal(a1: Any, a2: Any) -> TracedArray:
    """Returns whether all elements are equal, as a bool of rank 0."""
    return (operand(a1) == operand(a2)).all()


@traced
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> TracedArray:
    """Returns whether all elements are close."""
    x, y = operand(a), operand(b)
    return (abs(x - y) <= atol + rtol * abs(y)).all()


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
    rows, columns = operand(arr).shape[-2:]
    return tril_indices(rows, k, int(columns))


@traced
def triu_indices_from(arr: Any, k: int = 0) -> tuple[TracedArray, ...]:
    """Returns the positions on and above a diagonal of a matrix."""
    rows, columns = operand(arr).shape[-2:]
    return triu_indices(rows, k, int(columns))


@traced
def diag_indices(n: int, ndim: int = 2) -> tuple[TracedArray, ...]:
    """Returns the positions of the diagonal of a matrix."""
    return (arange(n),) * ndim
