"""Float32 logarithms and functions based on them: log, log1p, pow, asinh, acosh, atanh."""

from __future__ import annotations

import math

import numpy as np

from structir.targets.cpu.math.bits import bits_of_single, polynomial, single_of_bits
from structir.targets.cpu.math.double import exp_clamped, log_core
from structir.targets.cpu.math.options import Number

single, whole = np.float32, np.int32  # numba computes with int32 in int64
ZERO, ONE, HALF = single(0), single(1), single(0.5)
INFINITY, NAN = single(np.inf), single(np.nan)
QUARTER, TINY = single(0.25), single(2.0**-26)  # log1p(x) rounds to x below the second
SMALLEST_NORMAL, SCALE, SCALE_EXPONENT = single(2.0**-126), single(2.0**23), single(23)
LEAST_MANTISSA_BITS, MANTISSA_BITS = np.int32(0x3F400000), np.int32(23)  # of 3/4
EXPONENT_MASK, FOUR_BITS = np.int32(-(2**23)), np.int32(0x40800000)
LN_2_HIGH, LN_2_LOW = single(0.693359375), single(-2.12194440e-4)

# (log(1 + t) - t) / t**2 on -1/4 .. 1/2
log_terms = polynomial(
    -0.5,
    0.3333345055580139,
    -0.25000110268592834,
    0.19990848004817963,
    -0.1664687842130661,
    0.14477629959583282,
    -0.13163936138153076,
    0.10472551733255386,
    -0.04515228420495987,
    one_rounding=False,
)


def log_of_parts(exponent: Number, t: Number) -> Number:
    """Computes exponent * log(2) + log(1 + t) for -1/4 <= t < 1/2.

    The first product is exact. The rounding error of its sum with t is added to the smaller terms.
    """
    high = exponent * LN_2_HIGH
    total = high + t
    low = exponent * LN_2_LOW + (t - (total - high))
    return total + (t * t * log_terms(t) + low)


def log(x: Number) -> Number:
    """Computes log(x): -inf at 0, NaN for x < 0; correct for subnormal x."""
    tiny = x < SMALLEST_NORMAL
    scaled = x * SCALE if tiny else x
    bits = bits_of_single(scaled)
    offset = whole(bits - LEAST_MANTISSA_BITS)
    exponent = single(whole(offset >> MANTISSA_BITS)) - (SCALE_EXPONENT if tiny else ZERO)
    value = log_of_parts(exponent, single_of_bits(bits - (offset & EXPONENT_MASK)) - ONE)
    value = x if x == INFINITY else value
    value = -INFINITY if x == ZERO else value
    return NAN if not x >= ZERO else value


def log1p(x: Number) -> Number:
    """Computes log(1 + x) without cancellation, from an exact reduced argument.

    For 1 + x = 2**n * m, the argument is m - 1 = 2**-n * x + (2**-n - 1). With 3/4 <= m < 3/2 this
    sum has no rounding error, but for n > 24, where it does not matter."""
    rounds_to_x = abs(x) < TINY
    inner = ZERO if rounds_to_x else x  # the square of a small number underflows, which is slow
    offset = whole(bits_of_single(ONE + inner) - LEAST_MANTISSA_BITS)
    raised = offset & EXPONENT_MASK
    scaled = single_of_bits(bits_of_single(inner) - raised)
    power = single_of_bits(FOUR_BITS - raised) * QUARTER
    value = log_of_parts(single(whole(offset >> MANTISSA_BITS)), scaled + (power - ONE))
    value = x if rounds_to_x or not x < INFINITY else value
    value = -INFINITY if x == -ONE else value
    return NAN if x < -ONE else value


def pow(x: Number, y: Number) -> Number:
    """Computes x ** y with the special cases of C."""
    size = abs(np.float64(x))
    exponent = np.float64(y)
    value = exp_clamped(exponent * log_core(size))
    value = 1.0 if size == 1.0 and x == x and y == y else value
    is_integer = np.floor(exponent) == exponent
    half = exponent * 0.5
    odd = is_integer and np.floor(half) != half
    negative = bits_of_single(x) < np.int32(0)
    value = -value if negative and odd else value
    defined = is_integer or not x < ZERO or size == np.inf
    value = value if defined else np.nan
    return ONE if y == ZERO or x == ONE else single(value)


def asinh(x: Number) -> Number:
    """Computes the inverse hyperbolic sine."""
    wide = np.float64(x)
    size = abs(wide)
    square = wide * wide
    large = log_core(size + math.sqrt(square + 1.0))
    large = -large if wide < 0.0 else large
    small = wide * (1.0 - square * (1.0 / 6.0 - square * 0.075))
    return single(small if size < 1e-3 else large)


def acosh(x: Number) -> Number:
    """Computes the inverse hyperbolic cosine; NaN for x < 1."""
    wide = np.float64(x)
    excess = wide - 1.0
    value = log_core(1.0 + (excess + math.sqrt(excess * (wide + 1.0))))
    return NAN if excess < 0.0 else single(value)


def atanh(x: Number) -> Number:
    """Computes the inverse hyperbolic tangent; infinite at +-1, NaN for |x| > 1."""
    wide = np.float64(x)
    square = wide * wide
    small = wide * (1.0 + square * (1.0 / 3.0 + square * 0.2))
    large = 0.5 * log_core((1.0 + wide) / (1.0 - wide))
    return single(small if abs(wide) < 1e-3 else large)
