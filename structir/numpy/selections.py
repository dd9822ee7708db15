"""Choices among elements and arrays, order statistics without NaN, and sets of known size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.numpy import creation, elementwise, indexing, reductions, shaping, sorting
from structir.numpy.updates import updated
from structir.tracing.array import TracedArray, as_array, cast, joint_operands, operand
from structir.tracing.context import traced, user_code


@traced
def choose(a: Any, choices: Sequence[Any], out: Any = None, mode: str = "clip") -> TracedArray:
    """Returns for each index in `a` the element of the choice with that number; indices are
    clamped, or with the mode "wrap" reduced."""
    if mode not in ("clip", "wrap", "raise"):
        message = f"choose: mode: expected 'clip' or 'wrap', found {mode!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    index, count = operand(a), len(choices)
    index = index % count if mode == "wrap" else elementwise.clip(index, 0, count - 1)
    arrays = joint_operands(list(choices))
    result = arrays[-1]
    for k in range(count - 2, -1, -1):
        result = elementwise.where(index == k, arrays[k], result)
    return result


@traced
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **keywords: Any) -> Any:
    """Returns the array with functions applied where conditions hold, by the last that does; one
    more function is for elements without. Functions are evaluated on all elements."""
    array = operand(x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        message = f"piecewise: expected {len(conditions)} functions, or one more, found"
        raise DiagnosticError(Diagnostic(f"{message} {len(functions)}", code="E1107"))
    rest = functions.pop() if len(functions) > len(conditions) else 0

    def value(function: Any) -> TracedArray:
        with user_code():
            result = function(array, *args, **keywords) if callable(function) else function
        return cast(operand(result), array.dtype_name)

    result = shaping.broadcast_to(value(rest), array.shape)
    for condition, function in zip(conditions, functions, strict=True):
        result = elementwise.where(condition, value(function), result)
    return result


@traced
def compress(
    condition: Any, a: Any, axis: int | None = None, *, size: int | None = None, fill_value: Any = 0
) -> TracedArray:
    """Returns the slices along an axis where a condition holds; an array as condition requires
    `size`, the number of slices."""
    array = shaping.ravel(a) if axis is None else operand(a)
    position = shaping.axis_of(axis or 0, array.ndim)
    (places,) = sorting.nonzero(condition, size=size, fill_value=array.shape[position])
    taken = indexing.take(array, places, position)
    sizes = [-1 if k == position else 1 for k in range(array.ndim)]
    is_inside = shaping.reshape(places < array.shape[position], sizes)
    return elementwise.where(is_inside, taken, cast(operand(fill_value), array.dtype_name))


@traced
def extract(
    condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0
) -> TracedArray:
    """Returns the elements where a condition holds; an array as condition requires `size`."""
    flags = shaping.ravel(elementwise.not_equal(condition, 0))
    return compress(flags, shaping.ravel(arr), size=size, fill_value=fill_value)


@traced
def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = False) -> TracedArray:
    """Returns the array with values, in turn, where a mask holds."""
    array, flags = operand(arr), shaping.ravel(elementwise.not_equal(mask, 0))
    values = cast(shaping.ravel(vals), array.dtype_name)
    number = reductions.cumsum(cast(flags, "int32"), 0) - 1
    chosen = indexing.take(values, elementwise.maximum(number, 0) % values.shape[0], 0)
    result = elementwise.where(flags, chosen, shaping.ravel(array))
    return shaping.reshape(result, array.shape)


@traced
def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = False) -> TracedArray:
    """Returns the array with values, in turn, at positions of its elements, clamped to it.

    Negative positions count from the end, but with the mode "clip" they are clamped, too; with
    "wrap" positions are reduced.
    """
    array, places = operand(a), shaping.ravel(ind)
    values = cast(shaping.ravel(v), array.dtype_name)
    count = array.size
    if mode == "wrap":
        places = places % count
    else:
        if mode is None:
            places = elementwise.where(places < 0, places + count, places)
        places = elementwise.clip(places, 0, count - 1)
    turns = creation.arange(places.shape[0]) % values.shape[0]
    flat = updated(shaping.ravel(array), places, indexing.take(values, turns, 0), "set")
    return shaping.reshape(flat, array.shape)


@traced
def partition(a: Any, kth: Any, axis: int = -1) -> TracedArray:
    """Returns the elements along an axis such that those before `kth` are not larger: sorted."""
    return sorting.sort(a, axis)


@traced
def argpartition(a: Any, kth: Any, axis: int = -1) -> TracedArray:
    """Returns the positions of the elements of `partition`."""
    return sorting.argsort(a, axis)


# ---- order statistics of the elements that are not NaN


@traced
def nanquantile(
    a: Any, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False
) -> TracedArray:
    """Returns quantiles of the elements that are not NaN; NaN without any. See `quantile`."""
    if method not in sorting.QUANTILE_METHODS:
        message = f"nanquantile: method: expected one of {', '.join(sorting.QUANTILE_METHODS)}"
        raise DiagnosticError(Diagnostic(f"{message}, found {method!r}", code="E1107"))
    array = elementwise.real(shaping.ravel(a) if axis is None else a)
    position = shaping.axis_of(0 if axis is None else axis, array.ndim)
    ordered = shaping.moveaxis(sorting.sort(array, position), position, 0)
    count = reductions.sum(cast(~elementwise.isnan(ordered), "int32"), 0)
    fractions = as_array(q)
    shares = cast(elementwise.clip(fractions, 0, 1), array.dtype_name)
    shares = shaping.reshape(shares, (*fractions.shape, *[1] * count.ndim))
    places = shares * cast(elementwise.maximum(count - 1, 0), array.dtype_name)
    low = cast(places, "int32")
    high = elementwise.minimum(low + 1, elementwise.maximum(count - 1, 0))
    rest = places - cast(low, array.dtype_name)
    first, second = (_along_first(ordered, index, fractions.ndim) for index in (low, high))
    result = sorting.QUANTILE_METHODS[method](first, second, rest)
    result = elementwise.where(count == 0, math.nan, result)
    if not keepdims:
        return result
    sizes = [1 if axis is None or k == position else s for k, s in enumerate(operand(a).shape)]
    return shaping.reshape(result, (*fractions.shape, *sizes))


def _along_first(ordered: TracedArray, index: TracedArray, count: int) -> TracedArray:
    """Returns the elements at positions of axis 0, for indices with `count` axes in front."""
    rows = shaping.reshape(index, (-1, *index.shape[count:]))
    return shaping.reshape(indexing.take_along_axis(ordered, rows, 0), index.shape)


@traced
def nanpercentile(
    a: Any, q: Any, axis: int | None = None, *, method: str = "linear", keepdims: bool = False
) -> TracedArray:
    """Returns percentiles of the elements that are not NaN."""
    return nanquantile(a, as_array(q) / 100, axis, method=method, keepdims=keepdims)


@traced
def nanmedian(a: Any, axis: int | None = None, keepdims: bool = False) -> TracedArray:
    """Returns the median of the elements that are not NaN."""
    return nanquantile(a, 0.5, axis, keepdims=keepdims)


@traced
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> TracedArray:
    """Returns the array reduced by a function over axes, one after the other, which are kept."""
    array = operand(a)
    for axis in axes if isinstance(axes, tuple | list) else (axes,):
        with user_code():
            result = operand(func(array, axis))
        is_kept = result.ndim == array.ndim
        array = result if is_kept else shaping.expand_dims(result, axis)
    return array
