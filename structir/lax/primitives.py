"""Primitives of arrays: slices at run-time positions, contractions, convolutions, windows."""

from __future__ import annotations

import builtins
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.nn.activation import sigmoid
from structir.numpy import (
    creation,
    elementwise,
    indexing,
    padding,
    reals,
    reductions,
    shaping,
    sorting,
    updates,
)
from structir.numpy.elementwise import (
    abs,
    add,
    apply,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    real,
    sign,
    subtract,
)
from structir.numpy.reals import (
    cbrt,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    log,
    log1p,
    reciprocal,
    round,
    rsqrt,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from structir.numpy.sorting import top_k
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand, promoted
from structir.tracing.context import traced
from structir.tracing.trees import map as map_leaves

__all__ = [
    "abs",
    "acos",
    "add",
    "asin",
    "atan",
    "atan2",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "eq",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "integer_pow",
    "le",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "pow",
    "reciprocal",
    "rem",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
    "top_k",
]
mul, sub, neg, pow = multiply, subtract, negative, power
max, min = maximum, minimum
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
logistic = sigmoid
asin, acos, atan = reals.arcsin, reals.arccos, reals.arctan
atan2, rem, integer_pow = reals.arctan2, elementwise.fmod, power


@traced
def lgamma(x: Any) -> TracedArray:
    """Returns log |gamma(x)|."""
    return apply(R.lgamma, real(x))


@traced
def digamma(x: Any) -> TracedArray:
    """Returns the derivative of log gamma."""
    array = real(x)  # in float64: near its zero it is the difference of large terms
    return cast(apply(R.digamma, cast(array, "float64")), array.dtype_name)


@traced
def erf_inv(x: Any) -> TracedArray:
    """Returns the inverse of the error function."""
    return apply(R.erfinv, real(x))


@traced
def erfc(x: Any) -> TracedArray:
    """Returns 1 - erf(x), accurate for large x."""
    return apply(R.erfc, real(x))


@traced
def div(x: Any, y: Any) -> TracedArray:
    """Returns x / y; integers are divided and rounded towards zero."""
    (a, b), _ = promoted(x, y)
    if dtypes.category(a.dtype_name) == dtypes.FLOAT:
        return elementwise.divide(a, b)
    quotient = elementwise.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + cast(inexact & ((a < 0) != (b < 0)), a.dtype_name)


@traced
def stop_gradient(x: Any) -> Any:
    """Returns a tree through which no gradient flows."""
    return _stopped(x)


def _stopped(tree: Any) -> Any:
    return map_leaves(
        lambda leaf: reductions.stop_gradient(operand(leaf)) if _is_floating(leaf) else leaf, tree
    )


def _is_floating(leaf: Any) -> bool:
    return dtypes.category(operand(leaf).dtype_name) == dtypes.FLOAT


@traced
def select(pred: Any, on_true: Any, on_false: Any) -> TracedArray:
    """Returns `on_true` where the condition is true, else `on_false`."""
    return elementwise.where(pred, on_true, on_false)


@traced
def select_n(which: Any, *cases: Any) -> TracedArray:
    """Returns for each element that of the case with the number `which`."""
    number = operand(which)
    if number.dtype_name == "bool":
        return elementwise.where(number, cases[1], cases[0])
    result: Any = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        result = elementwise.where(number <= k, cases[k], result)
    return operand(result)


@traced
def clamp(min: Any, x: Any, max: Any) -> TracedArray:
    """Returns x limited to [min, max]."""
    return elementwise.clip(x, min, max)


@traced
def convert_element_type(operand: Any, new_dtype: Any) -> TracedArray:
    """Returns an array in another dtype."""
    return elementwise.astype(operand, new_dtype)


@traced
def full(shape: Any, fill_value: Any, dtype: Any = None) -> TracedArray:
    """Returns an array of a shape with one value."""
    return creation.full(shape, fill_value, dtype)


@traced
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Returns an array like x with one value."""
    return creation.full_like(x, fill_value, dtype, shape)


@traced
def iota(dtype: Any, size: Any) -> TracedArray:
    """Returns 0, 1, ... below a size."""
    return creation.arange(size, dtype=dtype)


@traced
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> TracedArray:
    """Returns the indices along one axis of a shape."""
    sizes = [s if k == dimension else 1 for k, s in enumerate(shape)]
    return shaping.broadcast_to(iota(dtype, shape[dimension]).reshape(sizes), shape)


# ---- shapes


@traced
def reshape(operand: Any, new_sizes: Any, dimensions: Any = None) -> TracedArray:
    """Returns the elements in another shape, with the axes in the order of `dimensions`."""
    array = operand if dimensions is None else shaping.transpose(operand, dimensions)
    return shaping.reshape(array, new_sizes)


@traced
def transpose(operand: Any, permutation: Any) -> TracedArray:
    """Returns the array with permuted axes."""
    return shaping.transpose(operand, permutation)


@traced
def expand_dims(array: Any, dimensions: Any) -> TracedArray:
    """Returns the array with axes of size 1 inserted."""
    return shaping.expand_dims(array, tuple(dimensions))


@traced
def squeeze(array: Any, dimensions: Any) -> TracedArray:
    """Returns the array without axes of size 1."""
    return shaping.squeeze(array, tuple(dimensions))


@traced
def broadcast(operand: Any, sizes: Any) -> TracedArray:
    """Returns the array with new axes in front."""
    return shaping.broadcast_to(operand, (*sizes, *shaping.shape(operand)))


@traced
def broadcast_in_dim(operand: Any, shape: Any, broadcast_dimensions: Any) -> TracedArray:
    """Returns the array broadcast to a shape; its axes are at the positions."""
    sizes: list[Any] = [1] * len(shape)
    for axis, s in zip(broadcast_dimensions, shaping.shape(operand), strict=True):
        sizes[axis] = s
    return shaping.broadcast_to(shaping.reshape(operand, sizes), shape)


@traced
def concatenate(operands: Any, dimension: int) -> TracedArray:
    """Returns arrays joined along an axis."""
    return shaping.concatenate(operands, dimension)


@traced
def rev(operand: Any, dimensions: Any) -> TracedArray:
    """Returns the array with axes reversed."""
    return shaping.flip(operand, tuple(dimensions))


@traced
def pad(operand: Any, padding_value: Any, padding_config: Any) -> TracedArray:
    """Returns the array with values around it; (low, high, interior) for each axis."""
    if [interior for _, _, interior in padding_config if interior != 0]:
        message = "pad: expected interior padding 0, found another number"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    pairs = [(low, high) for low, high, _ in padding_config]
    return padding.pad(operand, pairs, constant_values=padding_value)


@traced
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> TracedArray:
    """Returns the array with a range of axes joined."""
    sizes = shaping.shape(operand)
    stop = len(sizes) if stop_dimension is None else stop_dimension
    return shaping.reshape(operand, (*sizes[:start_dimension], -1, *sizes[stop:]))


# ---- slices


@traced
def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> TracedArray:
    """Returns a slice of each axis."""
    steps = strides or [1] * len(start_indices)
    bounds = zip(start_indices, limit_indices, steps, strict=True)
    return indexing.getitem(operand, tuple([builtins.slice(*b) for b in bounds]))


@traced
def slice_in_dim(
    operand: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0
) -> TracedArray:
    """Returns a slice of one axis."""
    prefix = (builtins.slice(None),) * (axis % shaping.ndim(operand))
    return indexing.getitem(operand, (*prefix, builtins.slice(start_index, limit_index, stride)))


@traced
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any) -> TracedArray:
    """Returns a slice of known sizes; its start is known at run time and clamped."""
    return indexing.dynamic_slice(operand, start_indices, slice_sizes)


@traced
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> TracedArray:
    """Returns the array with a block replaced; its start is known at run time and clamped."""
    return updates.dynamic_update_slice(operand, update, start_indices)


def _starts(x: Any, start: Any, axis: int) -> list[Any]:
    rank = shaping.ndim(x)
    return [start if k == axis % rank else 0 for k in range(rank)]


@traced
def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: Any, axis: int = 0
) -> TracedArray:
    """Returns a slice of one axis of known size, from a start known at run time."""
    sizes = list(shaping.shape(operand))
    sizes[axis] = slice_size
    return indexing.dynamic_slice(operand, _starts(operand, start_index, axis), sizes)


@traced
def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int
) -> TracedArray:
    """Returns the array with a slice of one axis replaced."""
    return updates.dynamic_update_slice(operand, update, _starts(operand, start_index, axis))


@traced
def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True
) -> TracedArray:
    """Returns the slice of one axis at an index known at run time."""
    row = dynamic_slice_in_dim(operand, index, 1, axis)
    return row if keepdims else shaping.squeeze(row, axis)


@traced
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> TracedArray:
    """Returns the array with the slice of one axis at an index replaced."""
    block = update
    if shaping.ndim(block) < shaping.ndim(operand):
        block = shaping.expand_dims(block, axis)
    return dynamic_update_slice_in_dim(operand, block, index, axis)


# ---- reductions and sorts


@traced
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Returns the elements in ascending order along an axis.

    Several arrays are sorted by the first `num_keys` of them.
    """
    if not isinstance(operand, tuple | list):
        return sorting.sort(operand, dimension)
    order = sorting.lexsort(list(reversed(operand[:num_keys])), dimension)
    return tuple([indexing.take_along_axis(x, order, dimension) for x in operand])


@traced
def argmax(operand: Any, axis: int, index_dtype: Any = "int32") -> TracedArray:
    """Returns the first index of the largest element along an axis."""
    return elementwise.astype(reductions.argmax(operand, axis), index_dtype)


@traced
def argmin(operand: Any, axis: int, index_dtype: Any = "int32") -> TracedArray:
    """Returns the first index of the smallest element along an axis."""
    return elementwise.astype(reductions.argmin(operand, axis), index_dtype)


def _directed(function: Any, operand: Any, axis: int, reverse: bool) -> TracedArray:
    if reverse:
        return shaping.flip(function(shaping.flip(operand, axis), axis), axis)
    return function(operand, axis)


@traced
def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the sums of the first elements along an axis."""
    return _directed(reductions.cumsum, operand, axis, reverse)


@traced
def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the products of the first elements along an axis."""
    return _directed(reductions.cumprod, operand, axis, reverse)


@traced
def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the largest of the first elements along an axis."""
    return _directed(reductions.cummax, operand, axis, reverse)


@traced
def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
    """Returns the smallest of the first elements along an axis."""
    return _directed(reductions.cummin, operand, axis, reverse)


@traced
def sort_key_val(keys: Any, values: Any, dimension: int = -1) -> tuple[TracedArray, TracedArray]:
    """Returns keys in ascending order, and values in the same order."""
    order = sorting.argsort(keys, dimension)
    parts = [indexing.take_along_axis(x, order, dimension) for x in (keys, values)]
    return parts[0], parts[1]
