"""Float64 functions that LLVM vectorizes: exp, expm1, sigmoid, tanh, log. Their results are within
2.5 units in the last place; infinities, NaN, signed zeros and subnormal numbers are as in IEEE 754.

The argument reduction and the coefficients of `log` are those of FDLIBM (Sun Microsystems, 1993).
"""

from __future__ import annotations

from math import factorial

from structir.backend.math.bits import bits_of_double, double_of_bits, fma_double
from structir.backend.math.double import (
    EXPONENT_MASK,
    LN_2_HIGH,
    LN_2_LOW,
    LOG2_E,
    ROUNDER,
    SQRT_HALF_BITS,
)
from structir.backend.math.options import Number, vectorisable

HIGHEST, LOWEST = 710.0, -746.0  # exp is infinite above the first and 0 below the second
BIAS, MANTISSA_BITS = 1023, 52
ROUNDER_BITS = 0x4338000000000000
SIGN, MAGNITUDE = -(2**63), 2**63 - 1
SMALL = 1e-20  # expm1(x) and tanh(x) are x below it
TANH_ONE = 20.0
LEAST_NORMAL, RAISED, RAISED_BITS = 2.2250738585072014e-308, 18014398509481984.0, 54.0
INFINITY, NAN = float("inf"), float("nan")

# Taylor: (exp(r) - 1 - r) / r**2 on +-ln(2)/2 to 4e-18.
E0, E1, E2, E3, E4, E5 = (1 / factorial(k) for k in range(2, 8))
E6, E7, E8, E9, E10, E11 = (1 / factorial(k) for k in range(8, 14))

# (log(1 + f) - f + f * f / 2 - s * f * f / 2) / s in s**2, s = f / (2 + f)
L0, L1, L2 = 0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149
L3, L4, L5 = 0.2222219843214978396, 0.1818357216161805012, 0.1531383769920937332
L6 = 0.1479819860511658591


@vectorisable
def reduced(shifted: Number, x: Number) -> Number:
    """Computes x - n * log(2) for the integer n = shifted - ROUNDER."""
    n = shifted - ROUNDER
    return fma_double(n, -LN_2_LOW, fma_double(n, -LN_2_HIGH, x))


@vectorisable
def less_one(r: Number) -> Number:
    """Computes exp(r) - 1 for |r| <= ln(2)/2."""
    p = fma_double(E11, r, E10)
    p = fma_double(p, r, E9)
    p = fma_double(p, r, E8)
    p = fma_double(p, r, E7)
    p = fma_double(p, r, E6)
    p = fma_double(p, r, E5)
    p = fma_double(p, r, E4)
    p = fma_double(p, r, E3)
    p = fma_double(p, r, E2)
    p = fma_double(p, r, E1)
    p = fma_double(p, r, E0)
    return fma_double(p, r * r, r)


@vectorisable
def power_of_two(exponent: Number) -> Number:
    """Returns 2**exponent, a normal number."""
    return double_of_bits((exponent + BIAS) << MANTISSA_BITS)


@vectorisable
def exp(x: Number) -> Number:
    """Computes exp(x)."""
    bounded = HIGHEST if x > HIGHEST else x
    bounded = LOWEST if bounded < LOWEST else bounded
    shifted = fma_double(bounded, LOG2_E, ROUNDER)
    value = less_one(reduced(shifted, bounded)) + 1.0
    exponent = bits_of_double(shifted) - ROUNDER_BITS
    half = exponent >> 1
    value = (value * power_of_two(half)) * power_of_two(exponent - half)
    return x if x != x else value


@vectorisable
def expm1_bounded(x: Number) -> Number:
    """Computes exp(x) - 1 for x from -700 to 710: 2**n * (exp(r) - 1) + (2**n - 1)."""
    shifted = fma_double(x, LOG2_E, ROUNDER)
    half = power_of_two(bits_of_double(shifted) - ROUNDER_BITS - 1)
    value = fma_double(half, less_one(reduced(shifted, x)), half - 0.5)
    return value + value


@vectorisable
def expm1(x: Number) -> Number:
    """Computes exp(x) - 1 without cancellation."""
    bounded = HIGHEST if x > HIGHEST else x
    bounded = -50.0 if bounded < -50.0 else bounded
    value = expm1_bounded(bounded)
    return x if (x != x) | (abs(x) < SMALL) else value


@vectorisable
def sigmoid(x: Number) -> Number:
    """Computes 1 / (1 + exp(-x)), never by way of an overflow."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@vectorisable
def tanh(x: Number) -> Number:
    """Computes tanh(x) as t / (t + 2) for t = exp(2 * abs(x)) - 1."""
    bits = bits_of_double(x)
    size = double_of_bits(bits & MAGNITUDE)
    bounded = TANH_ONE if size > TANH_ONE else size
    t = expm1_bounded(bounded + bounded)
    value = size if size < SMALL else t / (t + 2.0)
    value = double_of_bits(bits_of_double(value) | (bits & SIGN))
    return x if x != x else value


@vectorisable
def log(x: Number) -> Number:
    """Computes log(x): -inf at 0, NaN for x < 0."""
    is_subnormal = x < LEAST_NORMAL
    normal = x * RAISED if is_subnormal else x
    bits = bits_of_double(normal)
    offset = bits - SQRT_HALF_BITS
    n = float(offset >> MANTISSA_BITS) - (RAISED_BITS if is_subnormal else 0.0)
    f = double_of_bits(bits - (offset & EXPONENT_MASK)) - 1.0
    s = f / (2.0 + f)
    t = s * s
    p = fma_double(L6, t, L5)
    p = fma_double(p, t, L4)
    p = fma_double(p, t, L3)
    p = fma_double(p, t, L2)
    p = fma_double(p, t, L1)
    p = fma_double(p, t, L0)
    square = 0.5 * f * f
    value = fma_double(s, fma_double(p, t, square), n * LN_2_LOW)
    value = fma_double(n, LN_2_HIGH, f - (square - value))
    value = x if x == INFINITY else value
    value = -INFINITY if x == 0.0 else value
    return value if x >= 0.0 else NAN
