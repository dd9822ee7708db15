"""Float64 exponential functions that LLVM vectorizes: exp, exp2, expm1, sigmoid, tanh, sinh, cosh.

Their results are within 2.5 units in the last place; infinities, NaN, signed zeros and subnormal
numbers are as in IEEE 754.
"""

from __future__ import annotations

from typing import Any

from structir.targets.cpu.features import has_wide_vectors
from structir.targets.cpu.math.bits import (
    bits_of_double,
    double_of_bits,
    fma_double,
    polynomial,
    rounded_product,
    scale_double,
)
from structir.targets.cpu.math.double import LN_2, LN_2_HIGH, LN_2_LOW, LOG2_E, ROUNDER
from structir.targets.cpu.math.options import Number

HIGHEST, LOWEST = 710.0, -746.0  # exp is infinite above the first and 0 below the second
HIGHEST_POWER, LOWEST_POWER = 1025.0, -1076.0  # of two
HIGHEST_SINH = 710.6
BIAS, MANTISSA_BITS, FIELD = 1023, 52, 0x7FF
SCALED_ONE = 2.0**-53
SCALED_ROUNDER = ROUNDER + (53 + BIAS)  # the low bits of the sum are the field of 2**(n + 53)
ROUNDER_BITS = 0x4338000000000000
SIGN, MAGNITUDE = -(2**63), 2**63 - 1
SMALL = 1e-20  # expm1(x), sinh(x) and tanh(x) are x below it
TANH_ONE = 20.0

# (exp(r) - 1 - r) / r**2 on +-ln(2)/2
exp_terms = polynomial(
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.00833333333332612,
    0.0013888888888883737,
    0.00019841269874873975,
    2.480158732558584e-05,
    2.755725533255441e-06,
    2.7557273594799413e-07,
    2.510524515390137e-08,
    2.0914707069612355e-09,
)


def reduced(n: Number, x: Number) -> Number:
    """Computes x - n * log(2) for an integer n."""
    return fma_double(n, -LN_2_LOW, fma_double(n, -LN_2_HIGH, x))


def less_one(r: Number) -> Number:
    """Computes exp(r) - 1 for |r| <= ln(2)/2."""
    return fma_double(exp_terms(r), r * r, r)


def power_of_two(exponent: Number) -> Number:
    """Returns 2**exponent, a normal number."""
    return double_of_bits((exponent + BIAS) << MANTISSA_BITS)


def scaled_twice(value: Number, exponent: Number) -> Number:
    """Computes value * 2**exponent as two products with powers of two, of which only the second one
    may round; correct for subnormal results. The second power is 0 for the exponent -1076."""
    second = ((exponent + 1077) >> 1) & FIELD
    first = (exponent + 2 * BIAS) - second
    first_power = double_of_bits(first << MANTISSA_BITS)
    return rounded_product(value * first_power, double_of_bits(second << MANTISSA_BITS))


scaled: Any = scale_double if has_wide_vectors() else scaled_twice


def exp(x: Number) -> Number:
    """Computes exp(x)."""
    x = HIGHEST if x > HIGHEST else x
    x = LOWEST if x < LOWEST else x
    shifted = fma_double(x, LOG2_E, ROUNDER)
    value = less_one(reduced(shifted - ROUNDER, x)) + 1.0
    return scaled(value, bits_of_double(shifted) - ROUNDER_BITS)


def exp_nonpositive(x: Number) -> Number:
    """Computes the exponential of x, or of 0 if x is positive; without overflow, one product
    scales."""
    x = 0.0 if x > 0.0 else x
    x = LOWEST if x < LOWEST else x
    shifted = fma_double(x, LOG2_E, SCALED_ROUNDER)
    value = fma_double(less_one(reduced(shifted - SCALED_ROUNDER, x)), SCALED_ONE, SCALED_ONE)
    return value * double_of_bits(bits_of_double(shifted) << MANTISSA_BITS)


def power_of_sum(high: Number, low: Number) -> Number:
    """Computes 2**(high + low) for a small `low`."""
    bounded = HIGHEST_POWER if high > HIGHEST_POWER else high
    bounded = LOWEST_POWER if bounded < LOWEST_POWER else bounded
    shifted = bounded + ROUNDER
    value = less_one(((bounded - (shifted - ROUNDER)) + low) * LN_2) + 1.0
    return scaled(value, bits_of_double(shifted) - ROUNDER_BITS)


def exp2(x: Number) -> Number:
    """Computes 2**x."""
    return power_of_sum(x, 0.0)


def quarter_of_expm1(x: Number) -> Number:
    """Computes (exp(x) - 1) / 4 for x from -700 to HIGHEST_SINH, where exp may overflow, as
    2**n * (exp(r) - 1) + (2**n - 1)."""
    shifted = fma_double(x, LOG2_E, ROUNDER)
    quarter = power_of_two(bits_of_double(shifted) - ROUNDER_BITS - 2)
    return fma_double(quarter, less_one(reduced(shifted - ROUNDER, x)), quarter - 0.25)


def expm1(x: Number) -> Number:
    """Computes exp(x) - 1 without cancellation."""
    bounded = HIGHEST if x > HIGHEST else x
    bounded = -50.0 if bounded < -50.0 else bounded
    value = quarter_of_expm1(bounded) * 4.0
    return x if (x != x) | (abs(x) < SMALL) else value


def sigmoid(x: Number) -> Number:
    """Computes 1 / (1 + exp(-x)), never by way of an overflow."""
    e = exp_nonpositive(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


def tanh(x: Number) -> Number:
    """Computes tanh(x) as t / (t + 2) for t = exp(2 * abs(x)) - 1."""
    bits = bits_of_double(x)
    size = double_of_bits(bits & MAGNITUDE)
    bounded = TANH_ONE if size > TANH_ONE else size
    t = quarter_of_expm1(bounded + bounded) * 4.0
    value = size if size < SMALL else t / (t + 2.0)
    value = double_of_bits(bits_of_double(value) | (bits & SIGN))
    return x if x != x else value


def sinh(x: Number) -> Number:
    """Computes sinh(x) as (t + t / (t + 1)) / 2 for t = exp(abs(x)) - 1."""
    bits = bits_of_double(x)
    size = double_of_bits(bits & MAGNITUDE)
    quarter = quarter_of_expm1(HIGHEST_SINH if size > HIGHEST_SINH else size)
    value = 2.0 * (quarter + quarter / (4.0 * quarter + 1.0))
    value = size if size < SMALL else value
    value = double_of_bits(bits_of_double(value) | (bits & SIGN))
    return x if x != x else value


def cosh(x: Number) -> Number:
    """Computes the hyperbolic cosine."""
    size = abs(x)
    quarter = quarter_of_expm1(HIGHEST_SINH if size > HIGHEST_SINH else size) + 0.25
    return x if x != x else 2.0 * (quarter + 0.0625 / quarter)
