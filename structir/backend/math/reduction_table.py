"""Powers of two modulo 2*pi in three pieces of few bits, to reduce large angles exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

# A float32 reaches 2**128, and 24 + 53 good bits are needed after the point.
TWO_PI = Fraction(
    "6.2831853071795864769252867665590057683943387987502116419498891846156328125724179972560697"
)
ENTRIES = 106  # exponents 0 .. 104 of finite numbers, and one for infinity
FIRST_BITS, SECOND_BITS = 26, 55  # 24-bit mantissa times 29-bit piece is exact in a double


def _pieces(exponent: int) -> tuple[float, float, float]:
    rest = Fraction(2) ** exponent % TWO_PI
    first = Fraction(int(rest * 2**FIRST_BITS), 2**FIRST_BITS)
    second = Fraction(int((rest - first) * 2**SECOND_BITS), 2**SECOND_BITS)
    return float(first), float(second), float(rest - first - second)


_table = np.array([_pieces(exponent) for exponent in range(ENTRIES)])
FIRST, SECOND, THIRD = (np.ascontiguousarray(column) for column in _table.T)
