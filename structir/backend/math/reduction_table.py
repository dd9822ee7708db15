"""The table (2**e mod 2*pi) / 2**e, for the exact range reduction of large angles."""

from __future__ import annotations

from fractions import Fraction

# A float32 reaches 2**128, and 24 + 53 correct bits are needed after the binary point.
TWO_PI = Fraction(
    "6.2831853071795864769252867665590057683943387987502116419498891846156328125724179972560697"
)
ENTRIES = 106  # exponents 0 .. 104 of finite numbers, and one for infinity


def _entry(exponent: int) -> tuple[float, float]:
    """Returns an entry as a double and its rounding error."""
    power = Fraction(2) ** exponent
    quotient = power % TWO_PI / power
    return float(quotient), float(quotient - Fraction(float(quotient)))


HIGH, LOW = zip(*[_entry(exponent) for exponent in range(ENTRIES)], strict=True)
