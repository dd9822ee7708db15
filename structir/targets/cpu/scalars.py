"""The CPU's scalar functions by name, as functions that numba compiles."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from structir.ir.dtype import INTS
from structir.ir.kernel import KERNEL_DTYPES
from structir.ir.scalar_functions import ScalarFunction, declared
from structir.targets.cpu.float8 import float8_helpers
from structir.targets.cpu.math import remainder
from structir.targets.cpu.math.bits import bits_of_single, single_of_bits
from structir.targets.cpu.math.options import Number, vectorisable
from structir.targets.cpu.math.whole_division import division_helpers


def _compiled(form: Any, arity: int) -> Any:
    """Returns a compiled function; Python and NumPy functions are compiled here."""
    if hasattr(form, "py_func"):
        return form
    if isinstance(form, FunctionType):
        return vectorisable(form)
    if arity == 2:
        return vectorisable(lambda x, y: form(x, y))
    return vectorisable(lambda x: form(x))


@vectorisable
def floor_quotient(x: Number, y: Number) -> Number:
    """Returns the floor quotient of two doubles."""
    return x // y


@vectorisable
def floor_remainder(x: Number, y: Number) -> Number:
    """Returns the remainder of the floor division of two doubles."""
    return x % y


@vectorisable
def sign_of(x: Number) -> Number:
    """Returns -1, 0 or 1; NaN propagates."""
    kind = type(x)
    return x if x != x else kind(x > 0) - kind(x < 0)


@njit(error_model="numpy", _nrt=False)  # type: ignore[call-overload,untyped-decorator,unused-ignore]
def whole_power(base: Number, exponent: Number) -> Number:
    """Returns an integer power by squaring, wrapping around; negative exponents give 0 unless the
    base is 1 or -1."""
    kind = type(base)
    if exponent < 0:
        return kind(1 if base == 1 else ((1 - 2 * (exponent & 1)) if base == -1 else 0))
    power, factor = (
        np.uint64(1),
        np.uint64(np.int64(base)),
    )  # unsigned: signed products may not wrap
    while exponent > 0:
        if exponent & 1:
            power = power * factor
        factor = factor * factor
        exponent = exponent >> 1
    return kind(power)


@vectorisable
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
        function.symbol_of(dtype): _compiled(form(), function.count)
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
