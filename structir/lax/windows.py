"""Contractions, convolutions and reductions over windows."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.lazy import exported, lazy_module
from structir.numpy import (
    contraction,
    creation,
    elementwise,
    indexing,
    reductions,
    shaping,
)
from structir.numpy import padding as pads
from structir.projections.monoid import MONOIDS
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, promoted
from structir.tracing.context import traced

np = lazy_module("numpy")


@traced
def dot(
    lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None
) -> TracedArray:
    """Returns the product of vectors and matrices; `precision` is a hint."""
    return contraction.dot(lhs, rhs, preferred_element_type=preferred_element_type)


@traced
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> TracedArray:
    """Returns the matrix product over the last two axes."""
    return contraction.matmul(lhs, rhs)


@traced
def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> TracedArray:
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
    return contraction.einsum(subscripts, lhs, rhs, preferred_element_type=preferred_element_type)


CONVOLUTIONS: dict[int, Callable[..., Expr]] = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}


@exported
def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> Any:
    """Returns the layouts of a convolution: they are strings already."""
    return dimension_numbers


@traced
def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    precision: Any = None,
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
    for axis, factor in enumerate(lhs_dilation or ()):
        x = spread(x, 2 + axis, int(factor))
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


def spread(x: TracedArray, axis: int, factor: int) -> TracedArray:
    """Returns an array with `factor - 1` zeros between the elements of an axis."""
    if factor == 1:
        return x
    sizes = x.shape
    widths = [(0, 0)] * (axis + 1) + [(0, factor - 1)] + [(0, 0)] * (x.ndim - axis - 1)
    gaps = pads.pad(shaping.expand_dims(x, axis + 1), widths)
    flat = shaping.reshape(gaps, (*sizes[:axis], sizes[axis] * factor, *sizes[axis + 1 :]))
    prefix = (slice(None),) * axis
    return indexing.getitem(flat, (*prefix, slice(None, (sizes[axis] - 1) * factor + 1)))


@traced
def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> TracedArray:
    """Returns a transposed convolution: a convolution of the operand with zeros between elements.

    Without `dimension_numbers` the layouts are NHWC and HWIO.
    """
    count = shaping.ndim(lhs) - 2
    spatial = "HWD"[:count]
    names = dimension_numbers or (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    sizes = [shaping.shape(rhs)[names[1].index(c)] for c in names[0] if c not in "NC"]
    dilation = [int(d) for d in rhs_dilation or [1] * count]
    pairs = padding
    if isinstance(padding, str):
        widths = [(int(k) - 1) * d + 1 for k, d in zip(sizes, dilation, strict=True)]
        settings = zip(widths, strides, strict=True)
        pairs = [_transposed_padding(padding.upper(), k, int(s)) for k, s in settings]
    return conv_general_dilated(lhs, rhs, [1] * count, pairs, strides, dilation, names)


def _transposed_padding(padding: str, width: int, stride: int) -> tuple[int, int]:
    """Returns the padding with which a convolution inverts the sizes of a strided one."""
    if padding == "SAME":
        total = width + stride - 2
        low = width - 1 if stride > width - 1 else -(-total // 2)
    else:
        total, low = width + stride - 2 + max(width - stride, 0), width - 1
    return low, total - low


@traced
def conv(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, precision: Any = None
) -> TracedArray:
    """Returns a convolution of NCHW and OIHW arrays."""
    return conv_general_dilated(lhs, rhs, window_strides, padding)


@traced
def reduce(operand: Any, init_value: Any, computation: Any, dimensions: Any) -> TracedArray:
    """Returns the sum, maximum or minimum; `computation` is `lax.add`, `max`, `min` or `mul`."""
    name = getattr(computation, "__name__", "")
    combine: dict[str, Callable[..., TracedArray]] = {**WINDOWS, "multiply": reductions.prod}
    return combine[name](operand, tuple(dimensions), initial=init_value)


WINDOWS: dict[str, Callable[..., TracedArray]] = {
    "add": reductions.sum,
    "maximum": reductions.max,
    "minimum": reductions.min,
}


@traced
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
) -> TracedArray:
    """Returns the sums, maxima or minima of windows; `computation` is `lax.add`, `max` or `min`."""
    name = getattr(computation, "__name__", "")
    if name not in WINDOWS:
        message = f"reduce_window: expected lax.add, lax.max or lax.min, found {name}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    x = elementwise.positive(operand)
    neutral = MONOIDS[NEUTRAL[name]].identity(x.dtype_name)
    ones = [1] * x.ndim
    pairs = _padding(padding, x.shape, window_dimensions, window_strides, ones)
    if any([side for pair in pairs for side in pair]):
        x = pads.pad(x, pairs, constant_values=np.asarray(neutral, x.dtype))
    settings = zip(window_dimensions, window_strides, strict=True)
    spatial = [k for k, (width, step) in enumerate(settings) if (width, step) != (1, 1)]
    pools = 1 <= len(spatial) <= len(POOLS) and is_float(x.dtype_name)
    reduction = _pooled if pools else _by_axis
    result = reduction(x, name, spatial, window_dimensions, window_strides)
    is_neutral = isinstance(init_value, int | float) and init_value == neutral
    return result if is_neutral else COMBINED[name](result, init_value)


def _pooled(
    x: TracedArray, name: str, spatial: list[int], widths: Sequence[int], steps: Sequence[int]
) -> TracedArray:
    """Returns the reduction over windows of some axes, as a pooling op over the last ones."""
    others = [k for k in range(x.ndim) if k not in spatial]
    order = [*others, *spatial]
    moved = shaping.transpose(x, order)
    outer = moved.shape[: len(others)]
    flat = shaping.reshape(moved, (-1, 1, *moved.shape[len(others) :]))
    pool_size, strides = [int(widths[k]) for k in spatial], [int(steps[k]) for k in spatial]
    average, largest = POOLS[len(spatial) - 1]
    if name == "add":
        total = emit(average(expression(flat), pool_size=pool_size, strides=strides))
        result = total * math.prod(pool_size)
    else:
        signed = flat if name == "maximum" else -flat
        result = emit(largest(expression(signed), pool_size=pool_size, strides=strides))
        result = result if name == "maximum" else -result
    sizes = (*outer, *result.shape[2:])
    inverse = [order.index(k) for k in range(x.ndim)]
    return shaping.transpose(shaping.reshape(result, sizes), inverse)


def _by_axis(
    x: TracedArray, name: str, spatial: list[int], widths: Sequence[int], steps: Sequence[int]
) -> TracedArray:
    """Returns the reduction over windows, axis by axis; a mean of integers would be truncated."""
    for axis in spatial:
        width, step = int(widths[axis]), int(steps[axis])
        starts = creation.arange((x.shape[axis] - width) // step + 1) * step
        positions = shaping.expand_dims(starts, 1) + creation.arange(width)
        windows = indexing.take(x, positions, axis)
        x = cast(WINDOWS[name](windows, axis=axis + 1), x.dtype_name)
    return x


NEUTRAL = {"add": "sum", "maximum": "max", "minimum": "min"}
COMBINED: dict[str, Callable[..., TracedArray]] = {
    "add": elementwise.add,
    "maximum": elementwise.maximum,
    "minimum": elementwise.minimum,
}
POOLS = (
    (R.nn.avg_pool1d, R.nn.max_pool1d),
    (R.nn.avg_pool2d, R.nn.max_pool2d),
    (R.nn.avg_pool3d, R.nn.max_pool3d),
)


@traced
def scatter_add(operand: Any, indices: Any, updates: Any) -> TracedArray:
    """Returns the array with rows added at indices."""
    return updates.updated(operand, indices, updates, "add")
