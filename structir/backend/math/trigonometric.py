"""float32 trigonometry: sin, cos, tan exact over the whole range, and the inverses."""

from __future__ import annotations

import math

import numpy as np

from structir.backend.math.bits import (
    bits_of_double,
    bits_of_single,
    double_of_bits,
    fma_double,
    single_of_bits,
)
from structir.backend.math.double import HALF_PI, ROUNDER, atan_core
from structir.backend.math.exponential import MAGNITUDE, SIGN
from structir.backend.math.options import Number, vectorisable
from structir.backend.math.reduction_table import FIRST, SECOND, THIRD

single = np.float32
TWO_OVER_PI = 0.6366197723675814
HALF_PI_LOW = 6.123233995736766e-17
PI = 3.141592653589793
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


@vectorisable
def quadrant_and_rest(x: Number) -> Number:
    """n and r with x = n * pi/2 + r, |r| <= pi/4; n comes in the low bits of the first value.

    A large x is m * 2**e with a whole m: 2**e is taken modulo 2*pi from a table, in pieces whose
    products with m are exact.
    """
    wide = np.float64(x)
    exponent = ((bits_of_single(x) & MAGNITUDE) >> np.int32(23)) - INTEGERS_FROM
    large = exponent > 0
    row = np.int64(exponent if large else np.int32(0))
    first, second, third = FIRST[row], SECOND[row], THIRD[row]  # always read: no branch around
    scaled = wide * double_of_bits((1023 - row) << 52)
    m = scaled if large else 0.0
    spread = scaled * first
    base = spread if large else wide
    tail = m * second
    shifted = fma_double(base + tail, TWO_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    rest = fma_double(n, -HALF_PI, base)
    rest = rest + (tail + fma_double(n, -HALF_PI_LOW, m * third))
    return bits_of_double(shifted), rest


@vectorisable
def sin_polynomial(r: Number) -> Number:
    """sin on +-pi/4."""
    t = r * r
    p = fma_double(S4, t, S3)
    p = fma_double(p, t, S2)
    p = fma_double(p, t, S1)
    p = fma_double(p, t, S0)
    return fma_double(r * t, p, r)


@vectorisable
def cos_polynomial(r: Number) -> Number:
    """cos on +-pi/4."""
    t = r * r
    p = fma_double(C3, t, C2)
    p = fma_double(p, t, C1)
    p = fma_double(p, t, C0)
    return fma_double(t * t, p, fma_double(-0.5, t, 1.0))


@vectorisable
def sin(x: Number) -> Number:
    """Sine."""
    n, r = quadrant_and_rest(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    value = c if n & 1 else s
    return x if x == single(0) else single(-value if n & 2 else value)


@vectorisable
def cos(x: Number) -> Number:
    """Cosine."""
    n, r = quadrant_and_rest(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    value = s if n & 1 else c
    return single(-value if (n + 1) & 2 else value)


@vectorisable
def tan(x: Number) -> Number:
    """Tangent."""
    n, r = quadrant_and_rest(x)
    s, c = sin_polynomial(r), cos_polynomial(r)
    over, under = (-c if n & 1 else s), (s if n & 1 else c)
    return x if x == single(0) else single(over / under)


@vectorisable
def with_sign_of(value: Number, x: Number) -> Number:
    """A non-negative value under the sign of x, that of zero included."""
    return single_of_bits(bits_of_single(single(value)) | (bits_of_single(x) & SIGN))


@vectorisable
def atan(x: Number) -> Number:
    """Inverse tangent."""
    return with_sign_of(atan_core(abs(np.float64(x))), x)


@vectorisable
def asin(x: Number) -> Number:
    """Inverse sine; NaN outside -1 .. 1."""
    size = abs(np.float64(x))
    return with_sign_of(atan_core(size / math.sqrt((1.0 - size) * (1.0 + size))), x)


@vectorisable
def acos(x: Number) -> Number:
    """Inverse cosine; NaN outside -1 .. 1."""
    wide = np.float64(x)
    return single(2.0 * atan_core(math.sqrt((1.0 - wide) / (1.0 + wide))))


@vectorisable
def atan2(y: Number, x: Number) -> Number:
    """The angle of the point (x, y), with C's special cases."""
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
