"""Primitives of arrays: slices at run-time positions, contractions, convolutions, windows."""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.special_functions import digamma as digamma_of
from structir.frontend.special_functions import inverse_error_function, log_gamma
from structir.ir.expr import Expr
from structir.numpy import contraction, creation, elementwise, indexing, reductions, shaping, sorting
from structir.numpy.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cbrt,
    ceil,
    cos,
    cosh,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    real,
    reciprocal,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
)
from structir.nn.activation import sigmoid
from structir.numpy.sorting import sort, top_k
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, emit, expression, operand, promoted
from structir.tracing.context import session, traced
from structir.tracing.trees import map as map_leaves

__all__ = [
    *("abs", "add", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt", "ceil"),
    *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p", "reciprocal"),
    *("round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "sort", "top_k"),
    *("mul", "sub", "neg", "max", "min", "pow", "eq", "ne", "lt", "le", "gt", "ge", "logistic"),
    *("asin", "acos", "atan", "atan2", "rem", "integer_pow"),
]
mul, sub, neg, pow = multiply, subtract, negative, power
max, min = maximum, minimum
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
logistic = sigmoid
asin, acos, atan = elementwise.arcsin, elementwise.arccos, elementwise.arctan
atan2, rem, integer_pow = elementwise.arctan2, elementwise.fmod, power


def _in_double(function: Callable[..., Expr], x: Any) -> TracedArray:
    """Applies a function that is computed in float64."""
    array = real(x)
    wide = expression(cast(array, "float64"))
    return cast(emit(function(wide, session().builder.emit)), array.aval.dtype)


@traced
def lgamma(x: Any) -> TracedArray:
    """Returns log |gamma(x)|."""
    return _in_double(log_gamma, x)


@traced
def digamma(x: Any) -> TracedArray:
    """Returns the derivative of log gamma."""
    return _in_double(digamma_of, x)


@traced
def erf_inv(x: Any) -> TracedArray:
    """Returns the inverse of the error function."""
    return _in_double(inverse_error_function, x)


@traced
def erfc(x: Any) -> TracedArray:
    """Returns 1 - erf(x)."""
    return 1 - erf(real(x))


@traced
def div(x: Any, y: Any) -> TracedArray:
    """Returns x / y; integers are divided and rounded towards zero."""
    (a, b), _ = promoted(x, y)
    if dtypes.category(a.aval.dtype) == dtypes.FLOAT:
        return elementwise.divide(a, b)
    quotient = elementwise.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + cast(inexact & ((a < 0) != (b < 0)), a.aval.dtype)


@traced
def stop_gradient(x: Any) -> Any:
    """Returns a tree through which no gradient flows."""
    return _stopped(x)


def _stopped(tree: Any) -> Any:
    return map_leaves(
        lambda leaf: reductions.stop_gradient(operand(leaf)) if _is_floating(leaf) else leaf, tree
    )


def _is_floating(leaf: Any) -> bool:
    return dtypes.category(operand(leaf).aval.dtype) == dtypes.FLOAT


@traced
def select(pred: Any, on_true: Any, on_false: Any) -> TracedArray:
    """Returns `on_true` where the condition is true, else `on_false`."""
    return elementwise.where(pred, on_true, on_false)


@traced
def select_n(which: Any, *cases: Any) -> TracedArray:
    """Returns for each element that of the case with the number `which`."""
    number = operand(which)
    if number.aval.dtype == "bool":
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
    """Returns the elements in another shape."""
    return shaping.reshape(operand, new_sizes)


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
    return shaping.pad(operand, pairs, constant_values=padding_value)


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
    return indexing.dynamic_update_slice(operand, update, start_indices)


def _starts(x: Any, start: Any, axis: int) -> list[Any]:
    rank = shaping.ndim(x)
    return [start if k == axis % rank else 0 for k in range(rank)]


@traced
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: Any, axis: int = 0) -> TracedArray:
    """Returns a slice of one axis of known size, from a start known at run time."""
    sizes = list(shaping.shape(operand))
    sizes[axis] = slice_size
    return indexing.dynamic_slice(operand, _starts(operand, start_index, axis), sizes)


@traced
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> TracedArray:
    """Returns the array with a slice of one axis replaced."""
    return indexing.dynamic_update_slice(operand, update, _starts(operand, start_index, axis))


@traced
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> TracedArray:
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


# ---- contractions and convolutions


@traced
def dot(lhs: Any, rhs: Any, **_options: Any) -> TracedArray:
    """Returns the product of vectors and matrices."""
    return contraction.dot(lhs, rhs)


@traced
def batch_matmul(lhs: Any, rhs: Any, **_options: Any) -> TracedArray:
    """Returns the matrix product over the last two axes."""
    return contraction.matmul(lhs, rhs)


@traced
def dot_general(lhs: Any, rhs: Any, dimension_numbers: Any, **_options: Any) -> TracedArray:
    """Returns a contraction; `dimension_numbers` is ((contracted), (batch)) of pairs of axes."""
    (contracted, batch), letters = dimension_numbers, iter(string.ascii_letters)
    left = [next(letters) for _ in range(shaping.ndim(lhs))]
    right = [next(letters) for _ in range(shaping.ndim(rhs))]
    for axes in (contracted, batch):
        for a, b in zip(*axes, strict=True):
            right[b] = left[a]
    summed = {left[k] for k in contracted[0]}
    first = [left[k] for k in batch[0]]
    free = [a for a in (*left, *right) if a not in summed and a not in first]
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join([*first, *free])}"
    return contraction.einsum(subscripts, lhs, rhs)


CONVOLUTIONS: dict[int, Callable[..., Expr]] = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}


@traced
def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    **_options: Any,
) -> TracedArray:
    """Returns a convolution. `dimension_numbers` are strings such as ("NHWC", "HWIO", "NHWC")."""
    (x, kernel), _ = promoted(lhs, rhs)
    count = x.ndim - 2
    spatial = "DHW"[-count:] if count > 1 else "H"
    default = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    names = dimension_numbers or default
    letters = [c for c in names[0] if c not in "NC"]
    x = shaping.transpose(x, [names[0].index(c) for c in ("N", "C", *letters)])
    kernel = shaping.transpose(kernel, [names[1].index(c) for c in ("O", "I", *letters)])
    if lhs_dilation is not None and [d for d in lhs_dilation if d != 1]:
        message = "conv_general_dilated: expected lhs_dilation 1, found another number"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    dilation = [int(d) for d in rhs_dilation or [1] * count]
    strides = [int(s) for s in window_strides]
    pairs = _padding(padding, x.shape[2:], kernel.shape[2:], strides, dilation)
    call = CONVOLUTIONS[count](
        expression(x),
        expression(kernel),
        strides=strides,
        padding=[pair[side] for side in (0, 1) for pair in pairs],
        dilation=dilation,
        groups=feature_group_count,
    )
    order = [("N", "C", *letters).index(c) for c in names[2]]
    return shaping.transpose(emit(call), order)


def _padding(padding: Any, sizes: Any, window: Any, strides: Any, dilation: Any) -> Any:
    """Returns the padding of each spatial axis."""
    if not isinstance(padding, str):
        return [(int(low), int(high)) for low, high in padding]
    if padding.upper() == "VALID":
        return [(0, 0)] * len(sizes)
    pairs = []
    for n, k, s, d in zip(sizes, window, strides, dilation, strict=True):
        effective = (k - 1) * d + 1
        if s == 1:
            total = effective - 1
        else:
            count = -(-n // s)
            total = known_size((count - 1) * s + effective - n)
        pairs.append((total // 2, total - total // 2))
    return pairs


def known_size(value: Any) -> int:
    """Returns a padding that is not negative; its size must be known."""
    number = value.__index__()
    return number if number > 0 else 0


@traced
def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, **_options: Any) -> TracedArray:
    """Returns a convolution of NCHW and OIHW arrays."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)


@traced
def reduce_window(
    operand: Any, init_value: Any, computation: Any, window_dimensions: Sequence[int],
    window_strides: Sequence[int], padding: Any, **_options: Any,
) -> TracedArray:
    """Returns the sums, maxima or minima of windows; `computation` is `lax.add`, `max` or `min`."""
    reduce = {"add": reductions.sum, "maximum": reductions.max, "minimum": reductions.min}
    reduction = reduce[getattr(computation, "__name__", "add")]
    x = elementwise.positive(operand)
    ones = [1] * x.ndim
    pairs = _padding(padding, x.shape, window_dimensions, window_strides, ones)
    x = shaping.pad(x, pairs, constant_values=init_value)
    for axis, (width, step) in enumerate(zip(window_dimensions, window_strides, strict=True)):
        if width == 1 and step == 1:
            continue
        count = (x.shape[axis] - width) // step + 1
        rows = (creation.arange(count) * step)[:, None] + creation.arange(width)[None, :]
        x = reduction(indexing.take(x, rows, axis), axis + 1)
    return x


@traced
def scatter_add(operand: Any, indices: Any, updates: Any) -> TracedArray:
    """Returns the array with rows added at indices."""
    return indexing.updated(operand, indices, updates, "add")
