"""Float64 trigonometric functions that LLVM vectorizes: sin, cos, tan, and their inverses.

Their results are within 2 units in the last place.
"""

from __future__ import annotations

import math

import numpy as np

from structir.targets.cpu.math.bits import (
    bits_of_double,
    double_of_bits,
    fma_double,
    polynomial,
    rare,
)
from structir.targets.cpu.math.double import HALF_PI, QUARTER_PI, ROUNDER, fma_exact
from structir.targets.cpu.math.options import Number

TWO_OVER_PI = 0.6366197723675814
HALF_PI_LOW, HALF_PI_LEAST = 6.123233995736766e-17, -1.4973849048591698e-33
QUARTER_PI_LOW = 3.061616997868383e-17
FOLD = 0.41421356237309503  # tan(pi/8)
LARGE = 1e9  # from here on the C library reduces the angle
LEAST_NORMAL = 2.2250738585072014e-308
SIGN, MAGNITUDE = -(2**63), 2**63 - 1
HUGE, TINY, MODERATE, TO_NORMAL = 2.0**900, 2.0**-900, 2.0**300, 2.0**600
rare_sin, rare_cos, rare_tan = rare("sin"), rare("cos"), rare("tan")

# (sin(r)/r - 1) / r**2 and (cos(r) - 1 + r**2/2) / r**4 in r**2, |r| <= pi/4
sin_terms = polynomial(
    -0.16666666666666666,
    0.008333333333330948,
    -0.00019841269836756774,
    2.7557316101617874e-06,
    -2.505113165023518e-08,
    1.5918115263265974e-10,
)
cos_terms = polynomial(
    0.041666666666666664,
    -0.0013888888888887398,
    2.480158729876456e-05,
    -2.7557317271145144e-07,
    2.087614614655861e-09,
    -1.1382623647474604e-11,
)

# (asin(x)/x - 1) / x**2 in x**2, |x| <= 1/2
asin_terms = polynomial(
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)

# (atan(x)/x - 1) / x**2 in x**2, |x| <= tan(pi/8)
atan_terms = polynomial(
    -0.3333333333333333,
    0.19999999999995519,
    -0.14285714284666184,
    0.11111111015227572,
    -0.09090904576954117,
    0.07692183163650894,
    -0.06664511064599371,
    0.05858145587628202,
    -0.050854323376990765,
    0.0392311556198723,
    -0.01917627151752634,
)


def reduce_angle(x: Number) -> Number:
    """Returns n in the low bits, and r and its rounding error with x = n * pi/2 + r and
    |r| <= pi/4, for |x| <= LARGE. Pi/2 is the sum of three doubles; n times the first of them
    cancels all but the last bits of x."""
    shifted = fma_double(x, TWO_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    rest = fma_exact(-n, HALF_PI, x)
    product = n * HALF_PI_LOW
    lost = fma_exact(n, HALF_PI_LOW, -product)
    r = rest - product
    back = rest - r
    low = ((back - product) + (rest - (r + back))) - lost
    low = fma_double(-n, HALF_PI_LEAST, low)
    high = r + low
    return bits_of_double(shifted), high, (r - high) + low


def sin_reduced(r: Number, low: Number) -> Number:
    """Computes sin(r + low) for |r| <= pi/4."""
    t = r * r
    return r + fma_double(r * t, sin_terms(t), fma_double(-0.5 * t, low, low))


def cos_reduced(r: Number, low: Number) -> Number:
    """Computes cos(r + low) for |r| <= pi/4."""
    t = r * r
    half = 0.5 * t
    start = 1.0 - half
    return start + (((1.0 - start) - half) + fma_double(t * t, cos_terms(t), -r * low))


def sin(x: Number) -> Number:
    """Computes the sine."""
    n, r, low = reduce_angle(x)
    s, c = sin_reduced(r, low), cos_reduced(r, low)
    value = c if n & 1 else s
    value = -value if n & 2 else value
    value = x if x == 0.0 else value
    return rare_sin(x) if abs(x) > LARGE else value


def cos(x: Number) -> Number:
    """Computes the cosine."""
    n, r, low = reduce_angle(x)
    s, c = sin_reduced(r, low), cos_reduced(r, low)
    value = s if n & 1 else c
    value = -value if (n + 1) & 2 else value
    return rare_cos(x) if abs(x) > LARGE else value


def tan(x: Number) -> Number:
    """Computes the tangent."""
    n, r, low = reduce_angle(x)
    s, c = sin_reduced(r, low), cos_reduced(r, low)
    over, under = (-c if n & 1 else s), (s if n & 1 else c)
    value = x if x == 0.0 else over / under
    return rare_tan(x) if abs(x) > LARGE else value


def with_sign_of(value: Number, x: Number) -> Number:
    """Returns a non-negative value with the sign of x, including that of zero."""
    return double_of_bits(bits_of_double(value) | (bits_of_double(x) & SIGN))


def asin_parts(size: Number) -> Number:
    """Returns asin(size) for size < 1/2, and asin(sqrt((1 - size) / 2)) = (pi/2 - asin(size)) / 2
    for larger ones, as a sum of a double and a small one."""
    near = size < 0.5
    half = (1.0 - size) * 0.5
    root = math.sqrt(half)
    error = fma_exact(-root, root, half) / (root + root + LEAST_NORMAL)
    s, square = (size if near else root), (size * size if near else half)
    return s, fma_double(s * square, asin_terms(square), 0.0 if near else error)


def asin(x: Number) -> Number:
    """Computes the inverse sine; NaN for |x| > 1."""
    size = abs(x)
    s, low = asin_parts(size)
    high = HALF_PI - (s + s)
    lost = (HALF_PI - high) - (s + s)
    far = high + (lost + (HALF_PI_LOW - (low + low)))
    return with_sign_of(s + low if size < 0.5 else far, x)


def acos(x: Number) -> Number:
    """Computes the inverse cosine; NaN for |x| > 1."""
    size = abs(x)
    s, low = asin_parts(size)
    near, negative = size < 0.5, x < 0.0
    factor = 1.0 if near else 2.0
    s, low = factor * s, factor * low
    turns = 1.0 if near else (2.0 if negative else 0.0)
    plus = negative if near else not negative
    s, low = (s if plus else -s), (low if plus else -low)
    base = turns * HALF_PI
    high = base + s
    return high + (((base - high) + s) + fma_double(turns, HALF_PI_LOW, low))


def atan_quotient(short: Number, long: Number, quarters: Number, sign: Number) -> Number:
    """Computes quarters * pi/4 + sign * atan(short / long) for 0 <= short <= long; `quarters` is 0
    or an even integer up to 4.

    Above tan(pi/8) it is the angle pi/4 + atan((short - long) / (short + long))."""
    far = short > FOLD * long
    over, under = (short - long if far else short), (short + long if far else long)
    over_low = ((-long - over) + short) if far else 0.0
    under_low = ((long - under) + short) if far else 0.0
    inverse = 1.0 / under
    q = over * inverse
    rest = fma_exact(-q, under, over) + (over_low - q * under_low)
    square = q * q
    low = fma_double(q * square, atan_terms(square), rest * inverse)
    turns = quarters + (sign if far else 0.0)
    base = turns * QUARTER_PI
    base_low = turns * QUARTER_PI_LOW
    high = base + sign * q
    return high + (((base - high) + sign * q) + (sign * low + base_low))


def atan(x: Number) -> Number:
    """Computes the inverse tangent."""
    size = abs(x)
    size = HUGE if size > HUGE else size
    steep = size > 1.0
    short, long = (1.0 if steep else size), (size if steep else 1.0)
    value = atan_quotient(short, long, 2.0 if steep else 0.0, -1.0 if steep else 1.0)
    return with_sign_of(value, x)


def atan2(y: Number, x: Number) -> Number:
    """Computes the angle of the point (x, y), with the special cases of C."""
    height, width = abs(y), abs(x)
    steep = height > width
    short, long = (width if steep else height), (height if steep else width)
    scale = TINY if long > HUGE else (TO_NORMAL if long < MODERATE else 1.0)
    infinite = long == np.inf
    ratio_of_ends = 1.0 if short == np.inf else 0.0
    short = ratio_of_ends if infinite else short * scale
    long = 1.0 if infinite or long == 0.0 else long * scale
    left = bits_of_double(x) < 0
    quarters = 2.0 if steep else (4.0 if left else 0.0)
    value = atan_quotient(short, long, quarters, -1.0 if steep != left else 1.0)
    value = with_sign_of(value, y)
    return value if x == x and y == y else x + y
