"""Float32 exponential functions: exp, exp2, expm1, sigmoid, tanh, sinh, cosh."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.targets.cpu.features import has_fma, has_wide_vectors
from structir.targets.cpu.math.bits import (
    bits_of_single,
    fma_single,
    polynomial,
    scale_single,
    scale_twice,
    single_of_bits,
)
from structir.targets.cpu.math.double import exp_clamped
from structir.targets.cpu.math.options import Number

single = np.float32
ROUNDER = single(12582912.0)  # 1.5 * 2**23: the sum has the nearest integer in its low bits
ROUNDER_BITS = np.int32(0x4B400000)
LOG2_E, LN_2 = single(1.4426950408889634), single(0.6931471805599453)
LN_2_HIGH, LN_2_LOW = single(-0.693359375), single(2.12194440e-4)
SCALES_TO_ZERO, FUSED = has_wide_vectors(), has_fma()
HIGHEST, HIGHEST_POWER = single(89), single(129)  # exp and exp2 are infinite above them
# An arithmetic underflow costs about a hundred cycles. Scaling has none for a low exponent: an x
# below the first of two numbers, where the result is 0, is replaced by the second.
LOWEST, LEAST = (single(-103.97208), single(-1000)) if SCALES_TO_ZERO else (single(-104.6),) * 2
LOWEST_POWER, LEAST_POWER = (single(-150), single(-1000)) if SCALES_TO_ZERO else (single(-151),) * 2
ZERO, ONE, TWO = single(0), single(1), single(2)
MANTISSA_BITS = np.int32(23)
SCALED_ONE = single(2.0**-24)
SCALED_ROUNDER = ROUNDER + single(24 + 127)  # the low bits of the sum are the field of 2**(n + 24)
SIGN, MAGNITUDE = np.int32(-(2**31)), np.int32(0x7FFFFFFF)

# (exp(r) - 1 - r) / r**2 on +-ln(2)/2: minimax for the relative error, by Lawson's iteration.
EXP_TERMS = (
    0.4999999403953552,
    0.1666651964187622,
    0.04166840389370918,
    0.00836889911442995,
    0.001381422160193324,
)
exp_terms = polynomial(*EXP_TERMS, one_rounding=False)
scaled_exp_terms = polynomial(*[c * float(SCALED_ONE) for c in EXP_TERMS], one_rounding=False)

# (tanh(x)/x - 1) / x**2 in x**2, |x| <= 0.62
tanh_terms = polynomial(
    -0.3333333134651184,
    0.13333214819431305,
    -0.053947947919368744,
    0.02170751243829727,
    -0.008194981142878532,
    0.0021597188897430897,
)
SIGMOID_ONE = single(30)
TANH_SMALL, TANH_ONE = single(0.6), single(9.1)  # from 9.1 on tanh rounds to 1


def exp_mantissa(r: Number) -> Number:
    """Computes exp(r) for |r| <= ln(2)/2; without fused multiply-add, with another order of
    roundings, which is then within 1 unit in the last place too."""
    p = exp_terms(r)
    if FUSED:
        return (p * r + ONE) * r + ONE
    return ONE + (r + r * r * p)


def scaled_exp_mantissa(r: Number) -> Number:
    """Computes `SCALED_ONE` * exp(r), with the roundings of `exp_mantissa`."""
    p = scaled_exp_terms(r)
    if FUSED:
        return (p * r + SCALED_ONE) * r + SCALED_ONE
    return SCALED_ONE + (r * SCALED_ONE + r * r * p)


scale: Any = scale_single if has_wide_vectors() else scale_twice


def reduced(n: Number, x: Number) -> Number:
    """Computes x - n * log(2) for an integer n."""
    r = n * LN_2_HIGH + x  # the product is exact
    return n * LN_2_LOW + r


def exp_below(x: Number) -> Number:
    """Computes exp(x) for x up to slightly above the overflow threshold."""
    x = LEAST if x < LOWEST else x
    shifted = x * LOG2_E + ROUNDER
    r = reduced(shifted - ROUNDER, x)
    return scale(exp_mantissa(r), bits_of_single(shifted) - ROUNDER_BITS)


def exp(x: Number) -> Number:
    """Computes exp(x), with IEEE behavior for subnormal results, overflow and NaN."""
    return exp_below(HIGHEST if x > HIGHEST else x)


def exp_moderate(x: Number) -> Number:
    """Computes exp(x) for x up to 70: without overflow, one product scales."""
    if SCALES_TO_ZERO:
        return exp_below(x)
    x = LEAST if x < LOWEST else x
    shifted = x * LOG2_E + SCALED_ROUNDER
    r = reduced(shifted - SCALED_ROUNDER, x)
    power = single_of_bits(bits_of_single(shifted) << MANTISSA_BITS)
    return scaled_exp_mantissa(r) * power


def exp_nonpositive(x: Number) -> Number:
    """Computes the exponential of x, or of 0 if x is positive."""
    return exp_moderate(ZERO if x > ZERO else x)


def exp2(x: Number) -> Number:
    """Computes 2**x, with IEEE behavior for subnormal results, overflow and NaN."""
    x = HIGHEST_POWER if x > HIGHEST_POWER else x
    x = LEAST_POWER if x < LOWEST_POWER else x
    shifted = x + ROUNDER
    r = (x - (shifted - ROUNDER)) * LN_2
    return scale(exp_mantissa(r), bits_of_single(shifted) - ROUNDER_BITS)


def exp_normal(x: Number) -> Number:
    """Computes exp(x) for arguments whose result is a normal number."""
    shifted = x * LOG2_E + ROUNDER
    r = reduced(shifted - ROUNDER, x)
    exponent = bits_of_single(shifted) << MANTISSA_BITS
    return single_of_bits(bits_of_single(exp_mantissa(r)) + exponent)


def sigmoid(x: Number) -> Number:
    """Computes 1 / (1 + exp(-x)) as exp(x) / (1 + exp(x)), with x clamped where the result is 1."""
    e = exp_moderate(SIGMOID_ONE if x > SIGMOID_ONE else x)
    return e / (ONE + e)


def tanh(x: Number) -> Number:
    """Computes tanh(x): a polynomial near 0, 1 - 2 / (exp(2x) + 1) elsewhere."""
    bits = bits_of_single(x)
    size = single_of_bits(bits & MAGNITUDE)
    bounded = TANH_ONE if size > TANH_ONE else size
    large = ONE - TWO / (exp_normal(bounded + bounded) + ONE)
    t = size * size
    p = tanh_terms(t)
    small = fma_single(p * t, size, size)
    value = small if size < TANH_SMALL else large
    value = single_of_bits(bits_of_single(value) | (bits & SIGN))
    return value if x == x else x


def expm1(x: Number) -> Number:
    """Computes exp(x) - 1 without cancellation."""
    wide = np.float64(x)
    small = wide * (1.0 + wide * (0.5 + wide * (1.0 / 6.0)))
    return single(small if abs(wide) < 1e-4 else exp_clamped(wide) - 1.0)


def sinh(x: Number) -> Number:
    """Computes the hyperbolic sine."""
    wide = np.float64(x)
    e = exp_clamped(wide)
    small = wide * (1.0 + wide * wide * (1.0 / 6.0))
    return single(small if abs(wide) < 1e-3 else 0.5 * (e - 1.0 / e))


def cosh(x: Number) -> Number:
    """Computes the hyperbolic cosine."""
    e = exp_clamped(np.float64(x))
    return single(0.5 * (e + 1.0 / e))
