"""The CPU's scalar functions by name, as Python functions that are compiled into kernels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES
from structir.ir.scalar_functions import ScalarFunction, declared
from structir.targets.cpu.float8 import float8_helpers
from structir.targets.cpu.intrinsics import floor, remainder_toward_zero
from structir.targets.cpu.math import remainder
from structir.targets.cpu.math.bits import bits_of_single, single_of_bits
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.math.whole_division import division_helpers


def floor_quotient(x: Number, y: Number) -> Number:
    """Returns the floor quotient of two doubles, as Python rounds it."""
    rest, ratio = remainder_toward_zero(x, y), x / y
    exact = (x - rest) / y
    below_exact = exact - 1.0
    quotient = below_exact if (rest != 0.0) & ((y < 0.0) != (rest < 0.0)) else exact
    below = floor(quotient)
    nearest = below + 1.0 if quotient - below > 0.5 else below
    zero = quotient * quotient * x / y  # with the sign of the quotient, or NaN
    value = nearest if (quotient < 0.0) | (quotient > 0.0) else zero
    return ratio if y == 0.0 else value


def floor_remainder(x: Number, y: Number) -> Number:
    """Returns the remainder of the floor division of two doubles, with the sign of the divisor."""
    rest = remainder_toward_zero(x, y)
    zero = -0.0 if y < 0.0 else 0.0
    moved = rest + y if ((y < 0.0) != (rest < 0.0)) & (y != 0.0) else rest
    return moved if rest != 0.0 else zero


def sign_of(x: Number) -> Number:
    """Returns -1, 0 or 1; NaN propagates."""
    kind = type(x)
    return x if x != x else kind(x > 0) - kind(x < 0)


def whole_power(base: Number, exponent: Number) -> Number:
    """Returns an integer power by squaring, wrapping around; negative exponents give 0 unless the
    base is 1 or -1."""
    kind = type(base)
    if exponent < 0:
        odd, number = np.int64(exponent) & 1, np.int64(base)
        return kind(1 if number == 1 else (1 - 2 * odd if number == -1 else 0))
    # unsigned: signed products may not wrap
    power, factor = np.uint64(1), np.uint64(np.int64(base))
    rest, one = np.uint64(np.int64(exponent)), np.uint64(1)
    while rest != np.uint64(0):
        if rest & one:
            power = power * factor
        factor = factor * factor
        rest = rest >> one
    return kind(power)


def odd_single(x: Number) -> Number:
    """Rounds a float64 to float32 by round-to-odd: a second rounding to fewer bits is then exact,
    as if done at once."""
    nearest = np.float32(x)
    wide = np.float64(nearest)
    bits = bits_of_single(nearest) - np.int32(abs(wide) > abs(x))
    odd = np.float64(single_of_bits(np.int32(bits | 1)))
    return wide if wide == x or x != x else odd


def helpers() -> dict[str, Any]:
    """Returns the functions by their names in kernels."""
    return _helpers(tuple(declared().values()))


@cache
def _helpers(functions: tuple[ScalarFunction, ...]) -> dict[str, Any]:
    forms = {
        function.symbol_of(dtype): form()
        for function in functions
        for dtype in ("float32", "float64")
        if (form := function.form(dtype)) is not None
    }
    return {
        **forms,
        **float8_helpers(),
        "floor_quotient_float32": remainder.floor_quotient,
        "floor_quotient_float64": floor_quotient,
        "remainder_float32": remainder.remainder,
        "remainder_float64": floor_remainder,
        "sign_of": sign_of,
        "whole_power": whole_power,
        "odd_single": odd_single,
        **division_helpers(sorted(INTS & KERNEL_DTYPES)),
    }
