"""Double-precision cores of float32 functions: exp, log, atan.

Their relative error is at most 1e-12 for all float32 arguments of the functions.
"""

from __future__ import annotations

from typing import Any

from structir.targets.cpu.features import has_fma
from structir.targets.cpu.math.bits import bits_of_double, double_of_bits, fma_double, polynomial
from structir.targets.cpu.math.options import Number

ROUNDER = 6755399441055744.0  # 1.5 * 2**52: the sum has the nearest integer in its low bits
LOG2_E = 1.4426950408889634
LN_2_HIGH, LN_2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
LN_2 = 0.6931471805599453
HALF_PI = 1.5707963267948966
QUARTER_PI = 0.7853981633974483

# (exp(r) - 1 - r) / r**2 on +-ln(2)/2: minimax for the relative error, by Lawson's iteration.
exp_terms = polynomial(
    0.49999999999657396,
    0.16666666667277136,
    0.04166666696682434,
    0.00833333309165096,
    0.001388881034043489,
    0.0001984154147766069,
    2.4881219599543883e-05,
    2.7492915493203824e-06,
)

# (atanh(s)/s - 1) / s**2 in s**2, |s| <= 0.1722
log_terms = polynomial(
    0.3333333333329178,
    0.20000000027133302,
    0.14285708390634677,
    0.111116989821966,
    0.09061375804370907,
    0.08415484506152868,
)

# (atan(x)/x - 1) / x**2 in x**2, |x| <= tan(pi/8)
atan_terms = polynomial(
    -0.33333333295301637,
    0.19999994261212153,
    -0.14285420527591738,
    0.1110393921100511,
    -0.08996177241753543,
    0.0698794637790476,
    -0.03786223470279088,
)

HALVES = 134217729.0  # 2**27 + 1
EXPONENT_MASK = -4503599627370496  # sign and exponent bits of a double
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
FOLD = 0.41421356237309503  # tan(pi/8)
UNFOLD = 2.414213562373095  # tan(3*pi/8)


def fma_by_splitting(a: Number, b: Number, c: Number) -> Number:
    """Computes a * b + c where c cancels most of the product. The rounding error of the product is
    computed from half-width factors, whose products are exact (Dekker)."""
    product = a * b
    a_spread, b_spread = HALVES * a, HALVES * b
    a_high, b_high = a_spread - (a_spread - a), b_spread - (b_spread - b)
    a_low, b_low = a - a_high, b - b_high
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return (product + c) + lost


fma_exact: Any = fma_double if has_fma() else fma_by_splitting


def exp_core(x: Number) -> Number:
    """Computes exp(x) for |x| <= 700; propagates NaN."""
    shifted = fma_double(x, LOG2_E, ROUNDER)
    n = shifted - ROUNDER
    r = fma_double(n, -LN_2_HIGH, x)
    r = fma_double(n, -LN_2_LOW, r)
    p = exp_terms(r)
    p = fma_double(p, r * r, r) + 1.0
    return double_of_bits(bits_of_double(p) + (bits_of_double(shifted) << 52))


def exp_clamped(x: Number) -> Number:
    """Computes exp(x), with x clamped to the range where float32 results are neither 0 nor
    infinite."""
    x = -110.0 if x < -110.0 else x
    x = 100.0 if x > 100.0 else x
    return exp_core(x)


def log_core(x: Number) -> Number:
    """Computes log(x): -inf at 0, NaN for x < 0; propagates infinity and NaN. A subnormal double is
    not supported."""
    bits = bits_of_double(x)
    offset = bits - SQRT_HALF_BITS
    exponent = float(offset >> 52)
    m = double_of_bits(bits - (offset & EXPONENT_MASK))
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    p = log_terms(t)
    twice = s + s
    value = fma_double(exponent, LN_2, fma_double(twice * t, p, twice))
    value = x if x == INFINITY else value
    value = -INFINITY if x == 0.0 else value
    return NAN if not x >= 0.0 else value


def atan_core(x: Number) -> Number:
    """Computes atan(x) for x >= 0, including infinity."""
    far = x > UNFOLD
    near = x > FOLD
    numerator = -1.0 if far else (x - 1.0 if near else x)
    denominator = x if far else (x + 1.0 if near else 1.0)
    base = HALF_PI if far else (QUARTER_PI if near else 0.0)
    r = numerator / denominator
    t = r * r
    p = atan_terms(t)
    return base + fma_double(r * t, p, r)


INFINITY = float("inf")
NAN = float("nan")
