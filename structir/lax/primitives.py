"""Primitives of arrays: slices at run-time positions, contractions, convolutions, windows."""

from __future__ import annotations

import builtins
from typing import Any

from structir.lax.checks import invalid, is_known, per_axis, sequence
from structir.lax.windows import spread
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
    described,
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
    rsqrt,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced
from structir.tracing.size import is_size
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
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
]
mul, sub, neg, pow = multiply, subtract, negative, power
max, min = maximum, minimum
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
logistic = sigmoid
asin, acos, atan = reals.arcsin, reals.arccos, reals.arctan
atan2 = reals.arctan2


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
    if not is_size(size):
        raise invalid(f"iota: size: expected an int, found {size!r}")
    return creation.arange(size, dtype=dtype)


@traced
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> TracedArray:
    """Returns the indices along one axis of a shape."""
    axis = shaping.axis_of(dimension, len(shape), "broadcasted_iota: dimension")
    sizes = [s if k == axis else 1 for k, s in enumerate(shape)]
    return shaping.broadcast_to(iota(dtype, shape[axis]).reshape(sizes), shape)


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
    return shaping.expand_dims(array, dimensions)


@traced
def squeeze(array: Any, dimensions: Any) -> TracedArray:
    """Returns the array without axes of size 1."""
    return shaping.squeeze(array, dimensions)


@traced
def broadcast(operand: Any, sizes: Any) -> TracedArray:
    """Returns the array with new axes in front."""
    outer = sequence(sizes, "broadcast: sizes")
    return shaping.broadcast_to(operand, (*outer, *shaping.shape(operand)))


@traced
def broadcast_in_dim(operand: Any, shape: Any, broadcast_dimensions: Any) -> TracedArray:
    """Returns the array broadcast to a shape; its axes are at the positions."""
    array, name = as_operand(operand), "broadcast_in_dim: broadcast_dimensions"
    axes = [shaping.axis_of(axis, len(shape), name) for axis in broadcast_dimensions]
    if axes or len(shape) < array.ndim:  # without any, the first axes are new
        per_axis(axes, array, name)
        order = sorted(range(len(axes)), key=axes.__getitem__)
        array = shaping.transpose(array, order)
        sizes: list[Any] = [1] * len(shape)
        for k, s in zip(order, array.shape, strict=True):
            sizes[axes[k]] = s
        array = shaping.reshape(array, sizes)
    return shaping.broadcast_to(array, shape)


@traced
def concatenate(operands: Any, dimension: int) -> TracedArray:
    """Returns arrays joined along an axis."""
    return shaping.concatenate(operands, dimension)


@traced
def rev(operand: Any, dimensions: Any) -> TracedArray:
    """Returns the array with axes reversed."""
    return shaping.flip(operand, dimensions)


@traced
def pad(operand: Any, padding_value: Any, padding_config: Any) -> TracedArray:
    """Returns the array with values around it and between its elements.

    `padding_config` has (low, high, interior) for each axis: the numbers of values before and after
    the elements, and between two of them. Negative ones before and after remove elements.
    """
    array = as_operand(operand)
    for axis, widths in enumerate(per_axis(padding_config, array, "pad: padding_config")):
        if len(widths) != 3:
            raise invalid(f"pad: padding_config: expected (low, high, interior), found {widths}")
        low, high, interior = widths
        if is_known(interior) and interior < 0:
            raise invalid(f"pad: expected interior padding of at least 0, found {interior}")
        array = spread(array, axis, interior + 1, padding_value)
        array = _cropped(array, axis, low, high)
    pairs = [[_at_least_0(low), _at_least_0(high)] for low, high, _ in padding_config]
    return padding.pad(array, pairs, constant_values=padding_value)


def _at_least_0(width: Any) -> Any:
    return 0 if is_known(width) and width < 0 else width


def _cropped(array: TracedArray, axis: int, low: Any, high: Any) -> TracedArray:
    """Returns an array without the elements that negative widths remove."""
    first, removed = (-width if is_known(width) and width < 0 else 0 for width in (low, high))
    if not (first or removed):
        return array
    length = array.shape[axis]
    if is_known(length) and length + _at_least_0(low) + _at_least_0(high) < first + removed:
        raise invalid(f"pad: expected at most {length} elements removed, found {first + removed}")
    prefix = (builtins.slice(None),) * axis
    return indexing.getitem(array, (*prefix, builtins.slice(first, length - removed)))


@traced
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> TracedArray:
    """Returns the array with a range of axes joined."""
    sizes = shaping.shape(operand)
    stop = len(sizes) if stop_dimension is None else stop_dimension
    return shaping.reshape(operand, (*sizes[:start_dimension], -1, *sizes[stop:]))


# ---- slices


@traced
def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> TracedArray:
    """Returns a slice of each axis. Raises DiagnosticError for bounds outside of the axis."""
    array = as_operand(operand)
    starts = per_axis(start_indices, array, "slice: start_indices")
    limits = per_axis(limit_indices, array, "slice: limit_indices")
    steps = per_axis([1] * array.ndim if strides is None else strides, array, "slice: strides")
    index = []
    for start, limit, step, size in zip(starts, limits, steps, array.shape, strict=True):
        bounds = [value for value in (0, start, limit, size) if is_known(value)]
        if bounds != sorted(bounds) or (is_known(step) and step < 1):
            bound = f"start {start}, limit {limit} and stride {step}"
            raise invalid(f"slice: expected a slice of an axis of size {size}, found {bound}")
        index.append(builtins.slice(start, limit, step))
    return indexing.getitem(array, tuple(index))


@traced
def slice_in_dim(
    operand: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0
) -> TracedArray:
    """Returns a slice of one axis; bounds are those of Python."""
    if is_known(stride) and stride < 1:
        raise invalid(f"slice_in_dim: stride: expected a positive number, found {stride}")
    prefix = (builtins.slice(None),) * shaping.axis_of(axis, shaping.ndim(operand))
    return indexing.getitem(operand, (*prefix, builtins.slice(start_index, limit_index, stride)))


@traced
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any) -> TracedArray:
    """Returns a slice of known sizes; its start is known at run time and clamped."""
    array = as_operand(operand)
    starts = per_axis(start_indices, array, "dynamic_slice: start_indices")
    sizes = per_axis(slice_sizes, array, "dynamic_slice: slice_sizes")
    return indexing.dynamic_slice(array, starts, sizes)


@traced
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> TracedArray:
    """Returns the array with a block replaced; its start is known at run time and clamped."""
    array = as_operand(operand)
    starts = per_axis(start_indices, array, "dynamic_update_slice: start_indices")
    per_axis(shaping.shape(update), array, "dynamic_update_slice: sizes of update")
    return updates.dynamic_update_slice(array, update, starts)


def _starts(x: Any, start: Any, axis: int) -> list[Any]:
    rank = shaping.ndim(x)
    position = shaping.axis_of(axis, rank)
    return [start if k == position else 0 for k in range(rank)]


@traced
def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: Any, axis: int = 0
) -> TracedArray:
    """Returns a slice of one axis of known size, from a start known at run time."""
    sizes, starts = list(shaping.shape(operand)), _starts(operand, start_index, axis)
    sizes[axis] = slice_size
    return dynamic_slice(operand, starts, sizes)


@traced
def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int
) -> TracedArray:
    """Returns the array with a slice of one axis replaced."""
    return dynamic_update_slice(operand, update, _starts(operand, start_index, axis))


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
        return sorting.sort(operand, shaping.axis_of(dimension, shaping.ndim(operand)))
    if not 1 <= num_keys <= len(operand):
        raise invalid(f"sort: num_keys: expected 1 to {len(operand)}, found {num_keys}")
    order = sorting.lexsort(list(reversed(operand[:num_keys])), dimension)
    return tuple([indexing.take_along_axis(x, order, dimension) for x in operand])


@traced
def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[TracedArray, TracedArray]:
    """Returns the k largest elements of an axis, and their indices as int32.

    Raises DiagnosticError for a negative k, and for one above a known size.
    """
    array = as_operand(operand)
    size = array.shape[shaping.axis_of(axis, array.ndim)]
    if not is_known(k) or k < 0 or (is_known(size) and k > size):
        raise invalid(f"top_k: k: expected a number up to {size}, found {k}")
    return sorting.top_k(array, k, axis)


@traced
def argmax(operand: Any, axis: int, index_dtype: Any = "int32") -> TracedArray:
    """Returns the first index of the largest element along an axis."""
    return elementwise.astype(reductions.argmax(operand, axis), index_dtype)


@traced
def argmin(operand: Any, axis: int, index_dtype: Any = "int32") -> TracedArray:
    """Returns the first index of the smallest element along an axis."""
    return elementwise.astype(reductions.argmin(operand, axis), index_dtype)


def _cumulative(name: str, act: Any, text: str) -> Any:
    """Returns a cumulative function of an axis in the dtype of the operand."""

    def function(operand: Any, axis: int = 0, reverse: bool = False) -> TracedArray:
        array = as_operand(operand)
        position = shaping.axis_of(axis, array.ndim)
        if reverse:
            array = shaping.flip(array, position)
        result = cast(act(array, position), array.dtype_name)
        return shaping.flip(result, position) if reverse else result

    return traced(described(function, name, f"Returns {text} along an axis."))


cumsum = _cumulative("cumsum", reductions.cumsum, "the sums of the first elements")
cumprod = _cumulative("cumprod", reductions.cumprod, "the products of the first elements")
cummax = _cumulative("cummax", reductions.cummax, "the largest of the first elements")
cummin = _cumulative("cummin", reductions.cummin, "the smallest of the first elements")


@traced
def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[TracedArray, TracedArray]:
    """Returns keys in ascending order, and values in the same order; equal keys keep theirs."""
    order = sorting.argsort(keys, dimension)
    parts = [indexing.take_along_axis(x, order, dimension) for x in (keys, values)]
    return parts[0], parts[1]
