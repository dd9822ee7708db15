"""Functions with Python's integer semantics that the source of GPU kernels calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES
from structir.targets.cpu.math.options import Number

GREATEST = 2**63 - 1
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def trip_count(low: Number, high: Number, step: Number) -> Number:
    """Returns the number of iterations of a loop from `low` up to `high`, or from `high` down.

    `step` is a uint64 of at least 2. The distance is unsigned and may need all 64 bits.
    """
    if low >= high:
        return 0
    count = (np.uint64(np.int64(high)) - np.uint64(np.int64(low)) - np.uint64(1)) // step
    return np.int64(count) + (1 if count < np.uint64(GREATEST) else 0)


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def smaller(x: Number, y: Number) -> Number:
    """Returns Python's `min`: the first operand, unless the second is less."""
    return y if y < x else x


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def larger(x: Number, y: Number) -> Number:
    """Returns Python's `max`: the first operand, unless the second is greater."""
    return y if y > x else x


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def shifted_left(x: Number, count: Number, bits: Number) -> Number:
    """Returns `x << count`; 0 if the count is out of range."""
    return x - x if count < 0 or count >= bits else x << count


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def shifted_right(x: Number, count: Number, bits: Number) -> Number:
    """Returns `x >> count`, arithmetic; all sign bits if the count is out of range."""
    return (x >> (bits - 1)) >> 1 if count < 0 or count >= bits else x >> count


def _truncation(dtype: str) -> Callable[[Number], Number]:
    """Returns the conversion of floats to an integer dtype: truncates, saturates, and maps NaN to
    0."""
    kind, limits = getattr(np, dtype), np.iinfo(dtype)
    high, zero = kind(limits.max), kind(0)
    start, last, end = float(limits.min), float(limits.max), float(limits.max + 1)

    def into_narrow(x: Number) -> Number:
        floating = type(x)
        raised = x if x > floating(start) else floating(start)
        bounded = raised if raised < floating(last) else floating(last)
        whole = kind(bounded)
        return whole if x == x else zero

    def into_wide(x: Number) -> Number:
        floating = type(x)
        if x < floating(end):
            return kind(x if x > floating(start) else floating(start))
        return high if x == x else zero

    truncated = into_narrow if limits.bits < 32 else into_wide  # narrow limits are exact
    compiled: Callable[[Number], Number] = njit(**OPTIONS)(truncated)
    return compiled


@cache
def integer_functions() -> dict[str, Any]:
    """Returns the functions by the names that kernel source calls."""
    plain = (trip_count, smaller, larger, shifted_left, shifted_right)
    named = {function.__name__: function for function in plain}
    return named | {f"to_{dtype}": _truncation(dtype) for dtype in sorted(INTS & KERNEL_DTYPES)}
