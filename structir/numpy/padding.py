"""Padding of arrays."""

from __future__ import annotations

from typing import Any

from structir.numpy.creation import full
from structir.numpy.shaping import concatenate, flip, repeat
from structir.script import R
from structir.tracing.array import TracedArray, emit, expression, operand
from structir.tracing.context import traced
from structir.tracing.size import is_size


@traced
def pad(
    array: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0
) -> TracedArray:
    """Returns the array with elements before and after its axes.

    Modes: constant, edge, reflect, wrap.
    """
    x = operand(array)
    if mode not in PADDINGS:
        raise TypeError(f"pad: expected one of the modes {', '.join(PADDINGS)}, found {mode!r}")
    pairs = _pad_pairs(pad_width, x.ndim)
    widths = [width for pair in pairs for width in pair]
    if mode in OF_OP and all(type(width) is int for width in widths):
        call = R.nn.pad(expression(x), pad_width=widths, pad_mode=OF_OP[mode])
        return emit(call, x.weak)
    for axis, (low, high) in enumerate(pairs):
        if is_zero(low) and is_zero(high):
            continue
        x = PADDINGS[mode](x, axis, low, high, constant_values)
    return x


def is_zero(value: Any) -> bool:
    """Whether a size is known to be 0."""
    return type(value) is int and value == 0


def _pad_pairs(pad_width: Any, rank: int) -> list[tuple[Any, Any]]:
    if is_size(pad_width):
        return [(pad_width, pad_width)] * rank
    items = [tuple(p) if not is_size(p) else (p, p) for p in pad_width]
    if len(items) == 2 and is_size(pad_width[0]):
        items = [(pad_width[0], pad_width[1])]
    return items * rank if len(items) == 1 else items


def _filled(x: TracedArray, axis: int, low: Any, high: Any, value: Any) -> TracedArray:
    parts = []
    for amount, part in ((low, None), (0, x), (high, None)):
        if part is not None:
            parts.append(part)
        elif not is_zero(amount):
            shape = [amount if k == axis else s for k, s in enumerate(x.shape)]
            parts.append(full(shape, value, x.dtype_name))
    return concatenate(parts, axis)


def _taken(x: TracedArray, axis: int, before: Any, after: Any) -> TracedArray:
    prefix = (slice(None),) * axis
    parts = [x[(*prefix, s)] for s in (before,) if s is not None]
    ends = [x[(*prefix, s)] for s in (after,) if s is not None]
    return concatenate([*parts, x, *ends], axis)


def _edge(x: TracedArray, axis: int, low: Any, high: Any, _value: Any) -> TracedArray:
    prefix = (slice(None),) * axis
    first, last = x[(*prefix, slice(0, 1))], x[(*prefix, slice(-1, None))]
    return concatenate([repeat(first, low, axis), x, repeat(last, high, axis)], axis)


def _wrapped(x: TracedArray, axis: int, low: Any, high: Any, _value: Any) -> TracedArray:
    length = x.shape[axis]
    before = None if is_zero(low) else slice(length - low, None)
    return _taken(x, axis, before, None if is_zero(high) else slice(0, high))


def _reflected(x: TracedArray, axis: int, low: Any, high: Any, _value: Any) -> TracedArray:
    length, prefix = x.shape[axis], (slice(None),) * axis
    before = flip(x[(*prefix, slice(1, 1 + low))], axis)
    after = flip(x[(*prefix, slice(length - 1 - high, length - 1))], axis)
    parts = [p for p, amount in ((before, low), (x, 1), (after, high)) if not is_zero(amount)]
    return concatenate(parts, axis)


OF_OP = {"edge": "edge", "wrap": "circular", "reflect": "reflect"}  # modes of `R.nn.pad`
PADDINGS = {"constant": _filled, "edge": _edge, "wrap": _wrapped, "reflect": _reflected}
