"""Integer division that LLVM vectorizes: the quotient rounded down or toward zero, and the
remainder of floor division.

The quotient of two integers below 2**53, computed in float64, rounds to an integer only if it is
one: the distance to the next integer is at least one divisor-th. Integers of 16 bits need only
float32. CPUs have no vector instruction for the division of integers.

A divisor of 0 gives 0; the quotient of the least integer and -1 is the least integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from structir.targets.cpu.intrinsics import floor, trunc
from structir.targets.cpu.kinds import SIGNED as SIGNED_KINDS
from structir.targets.cpu.kinds import Kind, of_operands
from structir.targets.cpu.math.bits import bits_of_double, double_of_bits
from structir.targets.cpu.math.double import ROUNDER
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.math.wide import ROUNDER_BITS

LIMIT = 2**51  # a float64 that is the sum of a smaller integer and ROUNDER has it in its low bits
OUTSIDE = ~(2 * LIMIT - 1)
ONE, ZERO = np.float32(1), np.float32(0)


def _guarded(instruction: str) -> Any:
    """Returns an intrinsic of an instruction of integers, with a divisor of 1 in place of 0 and -1,
    for which the instruction is not defined."""

    @of_operands(2)
    def divide(builder: Any, args: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        kind, is_signed = args[0].type, kinds[0] in SIGNED_KINDS
        special = builder.icmp_signed("==", args[1], ir.Constant(kind, 0))
        if is_signed:
            is_minus_one = builder.icmp_signed("==", args[1], ir.Constant(kind, -1))
            special = builder.or_(special, is_minus_one)
        divisor = builder.select(special, ir.Constant(kind, 1), args[1])
        return getattr(builder, ("s" if is_signed else "u") + instruction)(args[0], divisor)

    return divide


guarded_quotient, guarded_remainder = _guarded("div"), _guarded("rem")


def wide(x: Number) -> Number:
    """Returns an integer below LIMIT as a float64; CPUs without AVX-512 cannot convert vectors."""
    return double_of_bits(np.int64(x) + ROUNDER_BITS) - ROUNDER


def whole(x: Number) -> Number:
    """Returns the integer of a whole float64 below LIMIT."""
    return bits_of_double(x + ROUNDER) - ROUNDER_BITS


def floor_signed(x: Number, y: Number) -> Number:
    """Returns the quotient of two int64, rounded down; the divisor is not 0."""
    quotient, rest = guarded_quotient(x, y), guarded_remainder(x, y)
    below = np.int64((rest != 0) & ((rest ^ y) < 0))
    quotient = quotient - below
    negated = -x
    return negated if y == -1 else quotient


def ratio_signed(x: Number, y: Number) -> Number:
    """Returns the quotient of two int64, rounded toward zero; the divisor is not 0."""
    quotient, negated = guarded_quotient(x, y), -x
    return negated if y == -1 else quotient


def remainder_signed(x: Number, y: Number) -> Number:
    """Returns the remainder of floor division of two int64; the divisor is not 0."""
    rest = guarded_remainder(x, y)
    raised = rest + y
    rest = raised if (rest != 0) & ((rest ^ y) < 0) else rest
    return np.int64(0) if y == -1 else rest


def is_large_signed(x: Number, y: Number) -> Number:
    """Whether an int64 of two is outside of -LIMIT .. LIMIT - 1."""
    return (((x + LIMIT) | (y + LIMIT)) & OUTSIDE) != 0


def is_large_unsigned(x: Number, y: Number) -> Number:
    """Whether an uint64 of two is LIMIT or larger."""
    return (np.int64(x | y) & ~(LIMIT - 1)) != 0


def _exact(rounded: Any) -> Any:
    """Returns the quotient of integers below LIMIT, rounded by a function, as an int64."""

    def quotient(x: Number, y: Number) -> Number:
        divisor = wide(y)
        value = whole(rounded(wide(x) / (1.0 if divisor == 0.0 else divisor)))
        return np.int64(0) if divisor == 0.0 else value

    return quotient


floor_exact, ratio_exact = _exact(floor), _exact(trunc)


def remainder_exact(x: Number, y: Number) -> Number:
    """Returns the remainder of floor division of integers below LIMIT, as an int64; the product is
    exact."""
    dividend, divisor = wide(x), wide(y)
    quotient = floor(dividend / (1.0 if divisor == 0.0 else divisor))
    value = whole(dividend - quotient * divisor)
    return np.int64(0) if divisor == 0.0 else value


def _narrow(rounded: Any) -> Any:
    """Returns the quotient of integers of at most 16 bits, rounded by a function, as an int32."""

    def quotient(x: Number, y: Number) -> Number:
        divisor = np.float32(y)
        value = np.int32(rounded(np.float32(x) / (ONE if divisor == ZERO else divisor)))
        return np.int32(0) if divisor == ZERO else value

    return quotient


floor_narrow, ratio_narrow = _narrow(floor), _narrow(trunc)


def remainder_narrow(x: Number, y: Number) -> Number:
    """Returns the remainder of floor division of integers of at most 16 bits, as an int32."""
    dividend, divisor = np.float32(x), np.float32(y)
    quotient = floor(dividend / (ONE if divisor == ZERO else divisor))
    value = np.int32(dividend - quotient * divisor)
    return np.int32(0) if divisor == ZERO else value


def _of_any(exact: Any, large: Any, is_large: Any) -> Any:
    """Returns a function of integers of 64 bits by one of small and one of any integers."""

    def divide(x: Number, y: Number) -> Number:
        value = exact(x, y)
        return np.int64(large(x, y)) if is_large(x, y) and y != type(y)(0) else value

    return divide


EXACT = (floor_exact, ratio_exact, remainder_exact)
NARROW = (floor_narrow, ratio_narrow, remainder_narrow)
SIGNED = (floor_signed, ratio_signed, remainder_signed)
UNSIGNED = (guarded_quotient, guarded_quotient, guarded_remainder)


def _forms(dtype: str) -> tuple[Any, ...]:
    bits, is_signed = np.iinfo(dtype).bits, dtype.startswith("int")
    if bits < 64:
        return NARROW if bits < 32 else EXACT
    large, is_large = (SIGNED, is_large_signed) if is_signed else (UNSIGNED, is_large_unsigned)
    return tuple([_of_any(*pair, is_large) for pair in zip(EXACT, large, strict=True)])


def division_helpers(dtypes: Iterable[str]) -> dict[str, Any]:
    """Returns the functions by the names that kernels call."""
    names = ("floordiv", "quotient", "mod")
    return {
        f"{name}_{dtype}": form
        for dtype in dtypes
        for name, form in zip(names, _forms(dtype), strict=True)
    }
