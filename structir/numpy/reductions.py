"""Reductions over axes, and cumulative functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from structir.ir.expr import Expr
from structir.numpy.creation import ones_like
from structir.numpy.elementwise import abs as absolute
from structir.numpy.elementwise import (
    add,
    astype,
    described,
    divide,
    isnan,
    maximum,
    minimum,
    multiply,
    real,
    real_operands,
    where,
)
from structir.numpy.elementwise import where as select
from structir.numpy.reals import exp, log, sqrt
from structir.numpy.shaping import axes_of, axis_of, concatenate, ravel
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, emit, expression, operand
from structir.tracing.context import fields, traced

BuildOp = Callable[..., Expr]


def reduced(
    op: BuildOp, x: TracedArray, axis: Any, keepdims: bool = False, weak: bool = False
) -> TracedArray:
    """Emits a reduction over axes; None is all axes."""
    axes = axes_of(axis, x.ndim)
    return emit(op(expression(x), axis=axes, keepdims=bool(keepdims)), weak)


def _summable(x: Any, dtype: Any) -> TracedArray:
    array = operand(x)
    if dtype is not None:
        return astype(array, dtype)
    name = array.dtype_name
    if name == "bool" or (dtypes.category(name) == dtypes.INTEGER and name.endswith(("t8", "16"))):
        return cast(array, "uint32" if name.startswith("u") else "int32")
    return array


def _masked(x: TracedArray, mask: Any, neutral: Any) -> TracedArray:
    return x if mask is None else where(mask, x, neutral)


def _total(name: str, op: BuildOp, neutral: int, combine: Any, text: str) -> Any:
    """Returns a reduction by an operation with a neutral element."""

    def function(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> TracedArray:
        result = reduced(op, _masked(_summable(a, dtype), where, neutral), axis, keepdims)
        return result if initial is None else combine(result, initial)

    return traced(described(function, name, f"Returns {text}."))


sum = _total(
    "sum", R.sum, 0, add, "the sum over axes; bools and small integers are summed as int32"
)
prod = _total("prod", R.prod, 1, multiply, "the product over axes")


@traced
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> TracedArray:
    """Returns the mean over axes; integers become float32."""
    array = real(a) if dtype is None else real(astype(a, dtype))
    if where is not None:
        total = sum(array, axis, keepdims=keepdims, where=where)
        return divide(total, _count(array, where, axis, keepdims))
    return reduced(R.mean, array, axis, keepdims)


@traced
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    correction: Any = None,
    where: Any = None,
) -> TracedArray:
    """Returns the variance over axes: the squared distance to the mean, divided by n - ddof."""
    array = real(a) if dtype is None else real(astype(a, dtype))
    freedom = ddof if correction is None else correction
    if not freedom and where is None:
        return reduced(R.variance, array, axis, keepdims)
    centred = array - mean(array, axis, keepdims=True, where=where)
    total = sum(centred * centred, axis, keepdims=keepdims, where=where)
    if where is not None:
        return total / (_count(array, where, axis, keepdims) - freedom)
    count: Any = 1
    for k in axes_of(axis, array.ndim):
        count = array.shape[k] * count
    return total / (count - freedom)


def _count(array: TracedArray, mask: Any, axis: Any, keepdims: bool) -> TracedArray:
    """Returns the number of elements where a mask, which broadcasts, is true."""
    return sum(astype(operand(mask), "int32") + 0 * astype(array, "int32"), axis, keepdims=keepdims)


@traced
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: int = 0,
    keepdims: bool = False,
    correction: Any = None,
    where: Any = None,
) -> TracedArray:
    """Returns the square root of the variance."""
    return sqrt(var(a, axis, dtype, None, ddof, keepdims, correction, where))


def _extremum(op: BuildOp, a: Any, axis: Any, keepdims: bool) -> TracedArray:
    array = operand(a)
    if array.dtype_name == "bool":  # as uint8, whose neutral elements are 0 and 255
        return astype(reduced(op, astype(array, "uint8"), axis, keepdims), bool)
    return reduced(op, array, axis, keepdims, array.weak)


def _bound(name: str, op: BuildOp, combine: Any, text: str) -> Any:
    """Returns the reduction to the largest or to the smallest element."""

    def function(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> TracedArray:
        array = operand(a) if where is None else _masked(operand(a), where, initial)
        result = _extremum(op, array, axis, keepdims)
        return result if initial is None else operand(combine(result, initial))

    return traced(described(function, name, f"Returns {text} over axes."))


max = _bound("max", R.max, maximum, "the largest element")
min = _bound("min", R.min, minimum, "the smallest element")


amax, amin = max, min


@traced
def ptp(a: Any, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the difference of the largest and the smallest element."""
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


@traced
def all(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> TracedArray:
    """Returns whether all elements are true."""
    return _extremum(R.min, _masked(astype(operand(a), bool), where, True), axis, keepdims)


@traced
def any(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, where: Any = None
) -> TracedArray:
    """Returns whether one element is true."""
    return _extremum(R.max, _masked(astype(operand(a), bool), where, False), axis, keepdims)


@traced
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the number of elements that are not zero."""
    return sum(astype(operand(a), bool), axis, keepdims=keepdims)


def _index(op: BuildOp, a: Any, axis: Any, keepdims: bool) -> TracedArray:
    array = ravel(a) if axis is None else operand(a)
    if array.dtype_name == "bool":
        array = astype(array, "int8")
    position = axis_of(axis or 0, array.ndim)
    return cast(emit(op(expression(array), axis=position, keepdims=keepdims)), "int32")


@traced
def argmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the first index of the largest element, as int32."""
    return _index(R.argmax, a, axis, keepdims)


@traced
def argmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns the first index of the smallest element, as int32."""
    return _index(R.argmin, a, axis, keepdims)


# ---- NaN


def without_nans(a: Any, value: float) -> TracedArray:
    """Returns an array with a value for each NaN."""
    array = operand(a)
    return where(isnan(array), value, array) if _is_float(array) else array


def _is_float(array: TracedArray) -> bool:
    return dtypes.category(array.dtype_name) == dtypes.FLOAT


def ignoring_nans(act: Any, name: str, neutral: float, text: str, module: str = __name__) -> Any:
    """Returns a function of arrays that reads a neutral value for each NaN."""

    @functools.wraps(act)
    def function(a: Any, *args: Any, **keywords: Any) -> TracedArray:
        return act(without_nans(a, neutral), *args, **keywords)

    function.__module__ = module
    return traced(described(function, name, f"Returns {text}."))


nansum = ignoring_nans(sum, "nansum", 0, "the sum of the elements that are not NaN")


@traced
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> TracedArray:
    """Returns the mean of the elements that are not NaN."""
    count = sum(~isnan(a), axis, keepdims=keepdims, where=where)
    return divide(nansum(a, axis, dtype, None, keepdims, None, where), count)


def _bound_of_numbers(act: Any, name: str, neutral: float, text: str) -> Any:
    """Returns `max` or `min` of the elements that are not NaN, and NaN without any."""

    @functools.wraps(act)
    def function(
        a: Any,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> TracedArray:
        result = act(without_nans(a, neutral), axis, None, keepdims, initial, where)
        if initial is not None or not _is_float(result):
            return result
        return select(all(isnan(a), axis, keepdims=keepdims, where=where), math.nan, result)

    text = f"Returns the {text} of the elements that are not NaN, or NaN without any."
    return traced(described(function, name, text))


nanmax = _bound_of_numbers(max, "nanmax", -math.inf, "largest")
nanmin = _bound_of_numbers(min, "nanmin", math.inf, "smallest")


# ---- cumulative functions


def _cumulative(op: BuildOp, a: Any, axis: Any, dtype: Any) -> TracedArray:
    array = operand(ravel(a) if axis is None else a)
    if dtype is not None or array.dtype_name == "bool":
        array = astype(array, "int32" if dtype is None else dtype)
    return emit(op(expression(array), axis=axis_of(axis or 0, array.ndim)))


@traced
def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> TracedArray:
    """Returns the sums of the first elements along an axis, in the dtype of the array or of
    int32 for bools."""
    return _cumulative(R.cumsum, a, axis, dtype)


@traced
def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> TracedArray:
    """Returns the products of the first elements along an axis."""
    return _cumulative(R.cumprod, a, axis, dtype)


@traced
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> TracedArray:
    """Returns the sums of the first elements along an axis, with `include_initial` from 0 on."""
    result = cumsum(_summable(x, dtype), axis)
    if not include_initial:
        return result
    position = axis_of(axis or 0, result.ndim)
    first = result[(*(slice(None),) * position, slice(0, 1))]
    return concatenate([first * 0, result], position)


@traced
def cummax(a: Any, axis: int = 0) -> TracedArray:
    """Returns the largest of the first elements along an axis."""
    return TracedArray(fields(_cumulative(R.cummax, a, axis, None).expr)[0])


@traced
def cummin(a: Any, axis: int = 0) -> TracedArray:
    """Returns the smallest of the first elements along an axis."""
    return TracedArray(fields(_cumulative(R.cummin, a, axis, None).expr)[0])


@traced
def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> TracedArray:
    """Returns the differences of neighbouring elements, n times."""
    array = operand(a)
    position = axis_of(axis, array.ndim)
    prefix = (slice(None),) * position
    edge = array[(*prefix, slice(0, 1))]
    ends = [None if x is None else _end(x, edge) for x in (prepend, append)]
    parts = [part for part in (ends[0], array, ends[1]) if part is not None]
    array = concatenate(parts, position) if len(parts) > 1 else array
    for _ in range(n):
        array = array[(*prefix, slice(1, None))] - array[(*prefix, slice(None, -1))]
    return array


def _end(value: Any, edge: TracedArray) -> TracedArray:
    """Returns elements to join at an end: a number stands for a slice of them."""
    array = operand(value)
    return array if array.ndim else where(True, array, edge * 0 + array)


@traced
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> TracedArray:
    """Returns the integral by the trapezoidal rule."""
    values = real(y)
    position = axis_of(axis, values.ndim)
    prefix = (slice(None),) * position
    width: Any = dx
    if x is not None:
        points = real(x)
        width = diff(points, axis=-1 if points.ndim == 1 else axis)
        if points.ndim == 1:
            width = width.reshape((-1, *[1] * (values.ndim - 1 - position)))
    pairs = values[(*prefix, slice(1, None))] + values[(*prefix, slice(None, -1))]
    return sum(pairs * width, axis) / 2


@traced
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Returns the mean, weighted if there are weights; with `returned` also their sum."""
    array = real(a)
    factors = operand(1) if weights is None else operand(weights)
    if factors.ndim == 1 and array.ndim > 1 and isinstance(axis, int):
        after = array.ndim - 1 - axis_of(axis, array.ndim)
        factors = factors.reshape((-1, *[1] * after))
    total = sum(factors * ones_like(array), axis, keepdims=keepdims)
    result = (
        mean(array, axis, keepdims=keepdims)
        if weights is None
        else sum(array * factors, axis, keepdims=keepdims) / total
    )
    return (result, total) if returned else result


@traced
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns log(sum(b * exp(a))) over axes; stable for large elements."""
    total, highest = scaled_sum(a, axis, b)
    result = log(total) + highest
    return result if keepdims else emit(R.squeeze(expression(result), axes_of(axis, result.ndim)))


def scaled_sum(a: Any, axis: Any, b: Any = None) -> tuple[TracedArray, TracedArray]:
    """Returns the sum of b * exp(a - c) over axes of size 1, and c, the largest element.

    Elements whose factor is 0 do not count, whatever they are.
    """
    if b is None:
        array = real(a)
    else:
        (array, factors), _ = real_operands(a, b)
        array = where(factors == 0, -math.inf, array)
    highest = stop_gradient(max(array, axis, keepdims=True))
    highest = where(absolute(highest) == math.inf, 0, highest)
    terms = exp(array - highest)
    return sum(terms if b is None else terms * factors, axis, keepdims=True), highest


def stop_gradient(x: TracedArray) -> TracedArray:
    """Returns x, through which no gradient flows."""
    return emit(R.grad.no_grad(expression(x)))
