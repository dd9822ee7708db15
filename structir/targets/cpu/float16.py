"""Conversions of float16 by integer instructions, for CPUs without conversion instructions.

LLVM would call functions of the C runtime, whose symbols a process may lack.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

WORD, REAL = ir.IntType(32), ir.FloatType()
INFINITY = 0x7F800000
QUIET_NAN = 0x7E00  # as a float16
OVERFLOW = (127 + 16) << 23  # bits of 65536, the smallest number that overflows float16
SMALLEST_NORMAL = 113 << 23
# bits of a float32 whose unit in the last place is 2**-24
ULP_OF_SUBNORMALS = ((127 - 15) + (23 - 10) + 1) << 23


def word(value: int) -> Any:
    """Returns a constant of 32 bits."""
    return ir.Constant(WORD, value)


def float16_to_float32(builder: Any, bits: Any) -> Any:
    """Emits the conversion of float16 bits to float32.

    A multiplication corrects the exponent; it is exact for subnormals too.
    """
    whole = builder.zext(bits, WORD)
    sign = builder.shl(builder.and_(whole, word(0x8000)), word(16))
    magnitude = builder.and_(whole, word(0x7FFF))
    moved = builder.shl(magnitude, word(13))
    scaled = builder.fmul(builder.bitcast(moved, REAL), ir.Constant(REAL, 2.0**112))
    finite = builder.bitcast(scaled, WORD)
    special = builder.icmp_unsigned(">=", magnitude, word(0x7C00))
    result = builder.select(special, builder.or_(moved, word(INFINITY)), finite)
    return builder.bitcast(builder.or_(result, sign), REAL)


def float32_to_float16(builder: Any, value: Any) -> Any:
    """Emits the conversion of a float32 to float16 bits, rounded to nearest even; NaN stays NaN.

    Subnormals are rounded by an addition whose sum has their unit in the last place.
    """
    whole = builder.bitcast(value, WORD)
    magnitude = builder.and_(whole, word(0x7FFFFFFF))
    sign = builder.lshr(builder.and_(whole, word(0x80000000)), word(16))
    is_nan = builder.icmp_unsigned(">", magnitude, word(INFINITY))
    special = builder.select(is_nan, word(QUIET_NAN), word(0x7C00))
    unit = builder.bitcast(word(ULP_OF_SUBNORMALS), REAL)
    sum_ = builder.fadd(builder.bitcast(magnitude, REAL), unit)
    subnormal = builder.sub(builder.bitcast(sum_, WORD), word(ULP_OF_SUBNORMALS))
    odd = builder.and_(builder.lshr(magnitude, word(13)), word(1))
    rebased = builder.add(magnitude, word(((15 - 127) << 23) + 0xFFF & 0xFFFFFFFF))
    normal = builder.lshr(builder.add(rebased, odd), word(13))
    is_small = builder.icmp_unsigned("<", magnitude, word(SMALLEST_NORMAL))
    finite = builder.select(is_small, subnormal, normal)
    is_large = builder.icmp_unsigned(">=", magnitude, word(OVERFLOW))
    result = builder.or_(builder.select(is_large, special, finite), sign)
    return builder.trunc(result, ir.IntType(16))
