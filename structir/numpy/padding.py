"""Padding of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.numpy.creation import arange, full
from structir.numpy.elementwise import clip, maximum, minimum
from structir.numpy.indexing import take
from structir.numpy.shaping import concatenate
from structir.script import R
from structir.tracing.array import TracedArray, emit, expression, operand
from structir.tracing.context import traced
from structir.tracing.size import is_size


@traced
def pad(
    array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> TracedArray:
    """Returns the array with elements before and after its axes.

    Modes: constant, edge, reflect, symmetric, wrap.
    """
    x = operand(array)
    if mode not in PADDINGS:
        raise TypeError(f"pad: expected one of the modes {', '.join(PADDINGS)}, found {mode!r}")
    pairs = _pad_pairs(pad_width, x.ndim)
    widths = [width for pair in pairs for width in pair]
    if mode in OF_OP and all(type(width) is int for width in widths) and _fits(mode, pairs, x):
        call = R.nn.pad(expression(x), pad_width=widths, pad_mode=OF_OP[mode])
        return emit(call, x.weak)
    for axis, (low, high) in enumerate(pairs):
        if is_zero(low) and is_zero(high):
            continue
        if mode == "constant":
            x = _filled(x, axis, low, high, constant_values)
            continue
        length = x.shape[axis]
        if is_zero(length):
            message = f"pad: expected at least 1 element on axis {axis}, found 0"
            hint = 'pad by a constant: `mode="constant"`'
            raise DiagnosticError(Diagnostic(message, hint=hint, code="E1107"))
        positions = PADDINGS[mode](arange(low + length + high) - low, length)
        x = take(x, positions, axis)
    return x


def _fits(mode: str, pairs: list[tuple[Any, Any]], x: TracedArray) -> bool:
    """Whether `R.nn.pad` takes these widths: a reflection is shorter than a known axis."""
    return mode != "reflect" or all(
        [type(n) is int and max(pair) < n for pair, n in zip(pairs, x.dims, strict=True)]
    )


def is_zero(value: Any) -> bool:
    """Whether a size is known to be 0."""
    return type(value) is int and value == 0


def _pad_pairs(pad_width: Any, rank: int) -> list[tuple[Any, Any]]:
    if is_size(pad_width):
        return [(pad_width, pad_width)] * rank
    items = [tuple(p) if not is_size(p) else (p, p) for p in pad_width]
    if len(items) == 2 and is_size(pad_width[0]):
        items = [(pad_width[0], pad_width[1])]
    items = items * rank if len(items) == 1 else items
    if len(items) != rank:
        message = f"pad: pad_width: expected {rank} pairs, found {len(items)}"
        hint = f"pass a pair (before, after) per axis: `pad_width={((0, 1),) * rank}`"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1107"))
    return items


def _filled(x: TracedArray, axis: int, low: Any, high: Any, value: Any) -> TracedArray:
    parts = []
    for amount, part in ((low, None), (0, x), (high, None)):
        if part is not None:
            parts.append(part)
        elif not is_zero(amount):
            shape = [amount if k == axis else s for k, s in enumerate(x.shape)]
            parts.append(full(shape, value, x.dtype_name))
    return concatenate(parts, axis)


def _reflected(positions: TracedArray, length: Any) -> TracedArray:
    period = maximum(2 * length - 2, 1)
    steps = positions % period
    return minimum(steps, 2 * length - 2 - steps)


def _mirrored(positions: TracedArray, length: Any) -> TracedArray:
    steps = positions % (2 * length)
    return minimum(steps, 2 * length - 1 - steps)


OF_OP = {"edge": "edge", "wrap": "circular", "reflect": "reflect"}  # modes of `R.nn.pad`
PADDINGS: dict[str, Callable[[TracedArray, Any], TracedArray]] = {  # positions on the axis
    "constant": lambda positions, length: positions,
    "edge": lambda positions, length: clip(positions, 0, length - 1),
    "reflect": _reflected,
    "symmetric": _mirrored,
    "wrap": lambda positions, length: positions % length,
}
