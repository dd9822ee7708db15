"""What the texts of kernels call for Python's meaning of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from structir.backend.math.options import Number
from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES

GREATEST = 2**63 - 1
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def trip_count(low: Number, high: Number, step: Number) -> Number:
    """How many iterations a loop from `low` up to `high` has, or one from `high` down to `low`; the
    step is an uint64 of 2 or more. Their distance may need all 64 bits, and has no sign."""
    if low >= high:
        return 0
    count = (np.uint64(np.int64(high)) - np.uint64(np.int64(low)) - np.uint64(1)) // step
    return np.int64(count) + (1 if count < np.uint64(GREATEST) else 0)


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def smaller(x: Number, y: Number) -> Number:
    """Python's `min`: the first one, unless the second is less."""
    return y if y < x else x


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def larger(x: Number, y: Number) -> Number:
    """Python's `max`: the first one, unless the second is greater."""
    return y if y > x else x


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def shifted_left(x: Number, count: Number, bits: Number) -> Number:
    """`x << count`; 0 where the count is no place in the number."""
    return x - x if count < 0 or count >= bits else x << count


@njit(**OPTIONS)  # type: ignore[untyped-decorator,unused-ignore]
def shifted_right(x: Number, count: Number, bits: Number) -> Number:
    """`x >> count`; the sign alone where the count is no place in the number."""
    return (x >> (bits - 1)) >> 1 if count < 0 or count >= bits else x >> count


def _truncation(dtype: str) -> Callable[[Number], Number]:
    """Floats as integers of a dtype: towards 0, at the ends the last ones, 0 for NaN."""
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

    truncated = into_narrow if limits.bits < 32 else into_wide  # floats have all narrow ones
    made: Callable[[Number], Number] = njit(**OPTIONS)(truncated)
    return made


@cache
def routine_helpers() -> dict[str, Any]:
    """The functions by the names under which texts call them."""
    plain = (trip_count, smaller, larger, shifted_left, shifted_right)
    named = {function.__name__: function for function in plain}
    return named | {f"to_{dtype}": _truncation(dtype) for dtype in sorted(INTS & KERNEL_DTYPES)}
