"""Float32 trigonometric functions: sin, cos, tan with exact range reduction, and the inverses."""

from __future__ import annotations

import math

import numpy as np

from structir.backend.math.bits import (
    bits_of_double,
    bits_of_single,
    fma_double,
    fma_single,
    single_of_bits,
    table_lookup,
)
from structir.backend.math.double import HALF_PI, ROUNDER, atan_core, fma_exact
from structir.backend.math.exponential import MAGNITUDE, SIGN
from structir.backend.math.options import Number, vectorisable
from structir.backend.math.reduction_table import HIGH, LOW

single = np.float32
ZERO, ONE, HALF, SMALLEST_NORMAL = single(0), single(1), single(0.5), single(2.0**-126)
TWO_OVER_PI = 0.6366197723675814
HALF_PI_LOW = 6.123233995736766e-17
PI = 3.141592653589793
table_high, table_low = table_lookup("high", HIGH), table_lookup("low", LOW)
INTEGERS_FROM = np.int32(150)  # exponent from which a float32 is an integer

# (sin(r)/r - 1) / r**2 and (cos(r) - 1 + r**2/2) / r**4, in r**2, |r| <= pi/4
S0, S1, S2 = -0.16666666666631175, 0.008333333325195057, -0.00019841263780012532
S3, S4 = 2.7555348422342725e-06, -2.476096237545095e-08
C0, C1, C2, C3 = (
    0.04166666662238016,
    -0.0013888883714136989,
    2.479950949387362e-05,
    -2.720935800998517e-07,
)

# (asin(x)/x - 1) / x**2 in x**2, |x| <= 1/2
A0, A1, A2 = 0.1666666718984796, 0.07499948155740194, 0.044660163516746704
A3, A4, A5 = 0.03011025433219366, 0.024618346513465682, 0.007469191109437347
A6 = 0.034692876385255


@vectorisable
def reduce_angle(x: Number) -> Number:
    """Returns n and r with x = n * pi/2 + r and |r| <= pi/4; n is in the low bits of the first
    value.

    A large x is m * 2**e with an integer m: the product of m and (2**e mod 2*pi) is computed in two
    doubles. For small x the table entry is 1.
    """
    wide = np.float64(x)
    exponent = ((bits_of_single(x) & MAGNITUDE) >> np.int32(23)) - INTEGERS_FROM
    row = exponent if exponent > np.int32(0) else np.int32(0)
    high = table_high(row)
    base = wide * high
    tail = fma_exact(wide, high, -base) + wide * table_low(row)
    shifted = fma_double(base, TWO_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    rest = fma_exact(n, -HALF_PI, base) + fma_double(n, -HALF_PI_LOW, tail)
    return bits_of_double(shifted), rest


@vectorisable
def sin_polynomial(r: Number) -> Number:
    """Computes sin(r) for |r| <= pi/4."""
    t = r * r
    p = fma_double(S4, t, S3)
    p = fma_double(p, t, S2)
    p = fma_double(p, t, S1)
    p = fma_double(p, t, S0)
    return fma_double(r * t, p, r)


@vectorisable
def cos_polynomial(r: Number) -> Number:
    """Computes cos(r) for |r| <= pi/4."""
    t = r * r
    p = fma_double(C3, t, C2)
    p = fma_double(p, t, C1)
    p = fma_double(p, t, C0)
    return fma_double(t * t, p, fma_double(-0.5, t, 1.0))


@vectorisable
def sin(x: Number) -> Number:
    """Computes the sine."""
    n, r = reduce_angle(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    value = c if n & 1 else s
    rounded = single(-value if n & 2 else value)
    return x if x == ZERO else rounded


@vectorisable
def cos(x: Number) -> Number:
    """Computes the cosine."""
    n, r = reduce_angle(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    value = s if n & 1 else c
    return single(-value if (n + 1) & 2 else value)


@vectorisable
def tan(x: Number) -> Number:
    """Computes the tangent."""
    n, r = reduce_angle(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    over, under = (-c if n & 1 else s), (s if n & 1 else c)
    value = single(over / under)
    return x if x == ZERO else value


@vectorisable
def with_sign_of(value: Number, x: Number) -> Number:
    """Returns a non-negative value with the sign of x, including that of zero."""
    return single_of_bits(bits_of_single(single(value)) | (bits_of_single(x) & SIGN))


@vectorisable
def atan(x: Number) -> Number:
    """Computes the inverse tangent."""
    return with_sign_of(atan_core(abs(np.float64(x))), x)


@vectorisable
def asin_of_half(x: Number) -> Number:
    """Computes asin(x) for 0 <= x <= 1/2, and asin(sqrt((1 - x) / 2)) = (pi/2 - asin(x)) / 2 for
    larger x. A single-precision root with its error takes half the time of a double root."""
    near = x < HALF
    half = (ONE - x) * HALF
    root = math.sqrt(half)
    error = fma_single(-root, root, half) / (root + root + SMALLEST_NORMAL)
    r = np.float64(x) if near else np.float64(root) + np.float64(error)
    t = r * r
    p = fma_double(A6, t, A5)
    p = fma_double(p, t, A4)
    p = fma_double(p, t, A3)
    p = fma_double(p, t, A2)
    p = fma_double(p, t, A1)
    p = fma_double(p, t, A0)
    return fma_double(r * t, p, r)


@vectorisable
def asin(x: Number) -> Number:
    """Computes the inverse sine; NaN for |x| > 1."""
    size = abs(x)
    angle = asin_of_half(size)
    return with_sign_of(angle if size < HALF else fma_double(-2.0, angle, HALF_PI), x)


@vectorisable
def acos(x: Number) -> Number:
    """Computes the inverse cosine; NaN for |x| > 1."""
    size = abs(x)
    angle = asin_of_half(size)
    negative = x < ZERO
    signed = -angle if negative else angle
    twice = signed + signed
    far = PI + twice if negative else twice
    return single(HALF_PI - signed if size < HALF else far)


@vectorisable
def atan2(y: Number, x: Number) -> Number:
    """Computes the angle of the point (x, y), with the special cases of C."""
    height, width = abs(np.float64(y)), abs(np.float64(x))
    steep = height > width
    short, long = (width if steep else height), (height if steep else width)
    ratio: Number = short / (1.0 if long == 0.0 else long)
    ratio = 1.0 if short == np.inf else ratio
    angle = atan_core(ratio)
    angle = HALF_PI - angle if steep else angle
    angle = PI - angle if bits_of_single(x) < np.int32(0) else angle
    value = with_sign_of(angle, y)
    return value if x == x and y == y else x + y
