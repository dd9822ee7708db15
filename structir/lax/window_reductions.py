"""Reductions over windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.dtype import is_float
from structir.lax.checks import invalid, is_known, per_axis
from structir.lax.reductions import combined, folded
from structir.lax.windows import spread, window_padding
from structir.lazy import lazy_module
from structir.numpy import creation, elementwise, indexing, reductions, shaping
from structir.numpy import padding as pads
from structir.projections.monoid import MONOIDS
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced
from structir.tracing.trees import flatten

np = lazy_module("numpy")
WINDOWS: dict[Any, tuple[str, Callable[..., TracedArray]]] = {
    elementwise.add: ("sum", reductions.sum),
    elementwise.multiply: ("prod", reductions.prod),
    elementwise.maximum: ("max", reductions.max),
    elementwise.minimum: ("min", reductions.min),
}
POOLS = (
    (R.nn.avg_pool1d, R.nn.max_pool1d),
    (R.nn.avg_pool2d, R.nn.max_pool2d),
    (R.nn.avg_pool3d, R.nn.max_pool3d),
)


@traced
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> TracedArray:
    """Returns windows reduced by an associative function of two elements.

    `base_dilation` and `window_dilation` are the distances of the elements of the array and of a
    window. The initial value of a function other than `lax.add`, `mul`, `max` and `min` must be
    neutral. Raises DiagnosticError for settings that are not positive numbers, one for each axis.
    """
    x, settings = as_operand(operand), []
    given = (window_dimensions, window_strides, base_dilation, window_dilation)
    for name, values in zip(SETTINGS, given, strict=True):
        numbers = per_axis([1] * x.ndim if values is None else values, x, f"reduce_window: {name}")
        settings.append([int(number) for number in numbers])
        if min(settings[-1], default=1) < 1:
            raise invalid(f"reduce_window: {name}: expected positive numbers, found {values}")
    widths, steps, spacing, dilation = settings
    monoid = WINDOWS.get(computation, ("", None))[0]
    neutral = init_value
    if monoid:
        neutral = np.asarray(MONOIDS[monoid].identity(x.dtype_name), x.dtype)
    for axis, factor in enumerate(spacing):
        x = spread(x, axis, factor, neutral)
    pairs = window_padding(padding, x.shape, widths, steps, dilation)
    if any([side for pair in pairs for side in pair]):
        x = pads.pad(x, pairs, constant_values=neutral)
    moving = [k for k in range(x.ndim) if (widths[k], steps[k]) != (1, 1)]
    if _has_pool(x, monoid, moving, widths, dilation):
        result = _pooled(x, monoid, moving, widths, steps)
    else:
        result = _by_axis(x, computation, moving, settings)
    if isinstance(init_value, int | float) and monoid and init_value == neutral:
        return result
    structure = flatten(result)[1]
    return cast(
        combined(computation, structure, [as_operand(init_value)], [result])[0], x.dtype_name
    )


SETTINGS = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


def _has_pool(
    x: TracedArray, monoid: str, moving: list[int], widths: list[int], dilation: list[int]
) -> bool:
    """Whether windows of some axes are those of a pooling op."""
    sizes = [(x.shape[k], widths[k]) for k in moving]
    is_inside = all([not is_known(size) or size >= width for size, width in sizes])
    is_dense = all([dilation[k] == 1 for k in moving])
    is_pooled = monoid in ("sum", "max", "min") and is_float(x.dtype_name)
    return is_pooled and is_inside and is_dense and 1 <= len(moving) <= len(POOLS)


def _pooled(
    x: TracedArray, monoid: str, moving: list[int], widths: list[int], steps: list[int]
) -> TracedArray:
    """Returns the reduction over windows of some axes, as a pooling op over the last ones."""
    others = [k for k in range(x.ndim) if k not in moving]
    order = [*others, *moving]
    moved = shaping.transpose(x, order)
    outer = moved.shape[: len(others)]
    flat = shaping.reshape(moved, (-1, 1, *moved.shape[len(others) :]))
    pool_size, strides = [widths[k] for k in moving], [steps[k] for k in moving]
    average, largest = POOLS[len(moving) - 1]
    if monoid == "sum":
        total = emit(average(expression(flat), pool_size=pool_size, strides=strides))
        result = total * math.prod(pool_size)
    else:
        signed = flat if monoid == "max" else -flat
        result = emit(largest(expression(signed), pool_size=pool_size, strides=strides))
        result = result if monoid == "max" else -result
    sizes = (*outer, *result.shape[2:])
    inverse = [order.index(k) for k in range(x.ndim)]
    return shaping.transpose(shaping.reshape(result, sizes), inverse)


def _by_axis(
    x: TracedArray, computation: Any, moving: list[int], settings: list[list[int]]
) -> TracedArray:
    """Returns the reduction over windows, axis by axis; a mean of integers would be truncated."""
    structure, known = flatten(x)[1], WINDOWS.get(computation)
    for axis in moving:
        width, step, _, dilation = [numbers[axis] for numbers in settings]
        count = (x.shape[axis] - (width - 1) * dilation - 1) // step + 1
        if is_known(count) and count < 0:
            count = 0
        starts, places = creation.arange(count) * step, creation.arange(width) * dilation
        windows = indexing.take(x, shaping.expand_dims(starts, 1) + places, axis)
        if known:
            x = cast(known[1](windows, axis=axis + 1), x.dtype_name)
        else:
            x = folded(computation, structure, [windows], [axis + 1])[0]
    return x
