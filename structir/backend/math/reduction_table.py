"""Powers of two modulo 2*pi, each over itself, to reduce large angles exactly."""

from __future__ import annotations

from fractions import Fraction

# A float32 reaches 2**128, and 24 + 53 good bits are needed after the point.
TWO_PI = Fraction(
    "6.2831853071795864769252867665590057683943387987502116419498891846156328125724179972560697"
)
ENTRIES = 106  # exponents 0 .. 104 of finite numbers, and one for infinity


def _pieces(exponent: int) -> tuple[float, float]:
    """A double, and what it lacks."""
    power = Fraction(2) ** exponent
    quotient = power % TWO_PI / power
    return float(quotient), float(quotient - Fraction(float(quotient)))


HIGH, LOW = zip(*[_pieces(exponent) for exponent in range(ENTRIES)], strict=True)
