"""Float32 logarithms and functions based on them: log, log1p, pow, asinh, acosh, atanh."""

from __future__ import annotations

import math

import numpy as np

from structir.backend.math.bits import bits_of_single, fma_single, polynomial, single_of_bits
from structir.backend.math.double import exp_clamped, log_core
from structir.backend.math.options import Number, vectorisable

single = np.float32
ZERO, ONE, HALF = single(0), single(1), single(0.5)
INFINITY, NAN = single(np.inf), single(np.nan)
SMALLEST_NORMAL, SCALE, SCALE_EXPONENT = single(2.0**-126), single(2.0**23), single(23)
SQRT_HALF_BITS, MANTISSA_BITS = np.int32(0x3F3504F3), np.int32(23)
EXPONENT_MASK = np.int32(-(2**23))
LN_2_HIGH, LN_2_LOW = single(0.693359375), single(-2.12194440e-4)

# (log(1 + t) - t + t**2/2) / t**3 on sqrt(1/2) - 1 .. sqrt(2) - 1
log_terms = polynomial(
    0.3333331048488617,
    -0.25000008940696716,
    0.2000216692686081,
    -0.16668090224266052,
    0.1421855241060257,
    -0.12403076887130737,
    0.11893518269062042,
    -0.11694380640983582,
    0.06757614761590958,
)


@vectorisable
def log(x: Number) -> Number:
    """Computes log(x): -inf at 0, NaN for x < 0; correct for subnormal x."""
    tiny = x < SMALLEST_NORMAL
    scaled = x * SCALE if tiny else x
    bits = bits_of_single(scaled)
    offset = bits - SQRT_HALF_BITS
    exponent = single(offset >> MANTISSA_BITS) - (SCALE_EXPONENT if tiny else ZERO)
    t = single_of_bits(bits - (offset & EXPONENT_MASK)) - ONE
    p = log_terms(t)
    square = t * t
    low = fma_single(p * square, t, exponent * LN_2_LOW)
    value = fma_single(exponent, LN_2_HIGH, t + fma_single(-HALF, square, low))
    value = x if x == INFINITY else value
    value = -INFINITY if x == ZERO else value
    return NAN if not x >= ZERO else value


@vectorisable
def log1p(x: Number) -> Number:
    """Computes log(1 + x) without cancellation."""
    wide = np.float64(x)
    small = wide * (1.0 - wide * (0.5 - wide * (1.0 / 3.0)))
    return single(small if abs(wide) < 1e-4 else log_core(1.0 + wide))


@vectorisable
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


@vectorisable
def asinh(x: Number) -> Number:
    """Computes the inverse hyperbolic sine."""
    wide = np.float64(x)
    size = abs(wide)
    square = wide * wide
    large = log_core(size + math.sqrt(square + 1.0))
    large = -large if wide < 0.0 else large
    small = wide * (1.0 - square * (1.0 / 6.0 - square * 0.075))
    return single(small if size < 1e-3 else large)


@vectorisable
def acosh(x: Number) -> Number:
    """Computes the inverse hyperbolic cosine; NaN for x < 1."""
    wide = np.float64(x)
    excess = wide - 1.0
    value = log_core(1.0 + (excess + math.sqrt(excess * (wide + 1.0))))
    return NAN if excess < 0.0 else single(value)


@vectorisable
def atanh(x: Number) -> Number:
    """Computes the inverse hyperbolic tangent; infinite at +-1, NaN for |x| > 1."""
    wide = np.float64(x)
    square = wide * wide
    small = wide * (1.0 + square * (1.0 / 3.0 + square * 0.2))
    large = 0.5 * log_core((1.0 + wide) / (1.0 - wide))
    return single(small if abs(wide) < 1e-3 else large)
