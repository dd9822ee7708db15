"""Float32 trigonometric functions: sin, cos, tan, and the inverses, by way of double precision."""

from __future__ import annotations

import math

import numpy as np

from structir.targets.cpu.math.bits import (
    bits_of_double,
    bits_of_single,
    double_of_bits,
    fma_double,
    fma_single,
    polynomial,
    rare,
    single_of_bits,
)
from structir.targets.cpu.math.double import HALF_PI, ROUNDER, atan_core, fma_exact
from structir.targets.cpu.math.exponential import SIGN
from structir.targets.cpu.math.options import Number

single = np.float32
ZERO, ONE, HALF, SMALLEST_NORMAL = single(0), single(1), single(0.5), single(2.0**-126)
TWO_OVER_PI = 0.6366197723675814
HALF_PI_LOW = 6.123233995736766e-17
PI, PI_LOW = 3.141592653589793, 1.2246467991473532e-16
ONE_OVER_PI = 0.3183098861837907
LARGE = single(1e9)  # from here on the C library reduces the angle
rare_sin, rare_cos, rare_tan = rare("sin"), rare("cos"), rare("tan")

# (sin(r)/r - 1) / r**2 and (cos(r) - 1 + r**2/2) / r**4, in r**2, |r| <= pi/4
sin_terms = polynomial(
    -0.16666666666631175,
    0.008333333325195057,
    -0.00019841263780012532,
    2.7555348422342725e-06,
    -2.476096237545095e-08,
)
cos_terms = polynomial(
    0.04166666662238016,
    -0.0013888883714136989,
    2.479950949387362e-05,
    -2.720935800998517e-07,
)

# (sin(r)/r - 1) / r**2 in r**2, |r| <= pi/2: minimax for the relative error, by Lawson's iteration
half_period_terms = polynomial(
    -0.16666666626145712,
    0.008333331108471153,
    -0.00019840868195174945,
    2.752538375354313e-06,
    -2.3888898504518513e-08,
)

# (asin(x)/x - 1) / x**2 in x**2, |x| <= 1/2
asin_terms = polynomial(
    0.1666666718984796,
    0.07499948155740194,
    0.044660163516746704,
    0.03011025433219366,
    0.024618346513465682,
    0.007469191109437347,
    0.034692876385255,
)


def reduce_angle(x: Number) -> Number:
    """Returns n in the low bits, and r with x = n * pi/2 + r and |r| <= pi/4, for |x| <= LARGE."""
    shifted = fma_double(x, TWO_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    return bits_of_double(shifted), fma_double(-n, HALF_PI_LOW, fma_exact(-n, HALF_PI, x))


def sin_polynomial(r: Number) -> Number:
    """Computes sin(r) for |r| <= pi/4."""
    t = r * r
    return fma_double(r * t, sin_terms(t), r)


def cos_polynomial(r: Number) -> Number:
    """Computes cos(r) for |r| <= pi/4."""
    t = r * r
    return fma_double(t * t, cos_terms(t), fma_double(-0.5, t, 1.0))


def sin_of_rest(shifted: Number, r: Number) -> Number:
    """Returns sin(n * pi + r) for |r| <= pi/2 and n in the low bits of `shifted`.

    One polynomial over half a period takes less time than those of sin and cos over a quarter, of
    which vector code computes both."""
    t = r * r
    value = r * fma_double(t, half_period_terms(t), 1.0)
    return double_of_bits(bits_of_double(value) ^ (bits_of_double(shifted) << 63))


def sin(x: Number) -> Number:
    """Computes the sine."""
    wide = np.float64(x)
    shifted = fma_double(wide, ONE_OVER_PI, ROUNDER)
    n = shifted - ROUNDER
    r = fma_double(-n, PI_LOW, fma_exact(-n, PI, wide))
    rounded = single(sin_of_rest(shifted, r))
    rounded = x if x == ZERO else rounded
    return single(rare_sin(wide)) if abs(x) > LARGE else rounded


def cos(x: Number) -> Number:
    """Computes the cosine: of x = (n - 1/2) * pi + r it is the sine of n * pi + r."""
    wide = np.float64(x)
    shifted = fma_double(wide, ONE_OVER_PI, 0.5) + ROUNDER
    turns = (shifted - ROUNDER) - 0.5
    r = fma_double(-turns, PI_LOW, fma_exact(-turns, PI, wide))
    rounded = single(sin_of_rest(shifted, r))
    return single(rare_cos(wide)) if abs(x) > LARGE else rounded


def tan(x: Number) -> Number:
    """Computes the tangent."""
    wide = np.float64(x)
    n, r = reduce_angle(wide)
    s, c = sin_polynomial(r), cos_polynomial(r)
    over, under = (-c if n & 1 else s), (s if n & 1 else c)
    rounded = x if x == ZERO else single(over / under)
    return single(rare_tan(wide)) if abs(x) > LARGE else rounded


def with_sign_of(value: Number, x: Number) -> Number:
    """Returns a non-negative value with the sign of x, including that of zero."""
    return single_of_bits(bits_of_single(single(value)) | (bits_of_single(x) & SIGN))


def atan(x: Number) -> Number:
    """Computes the inverse tangent."""
    return with_sign_of(atan_core(abs(np.float64(x))), x)


def asin_of_half(x: Number) -> Number:
    """Computes asin(x) for 0 <= x <= 1/2, and asin(sqrt((1 - x) / 2)) = (pi/2 - asin(x)) / 2 for
    larger x. A single-precision root with its error takes half the time of a double root."""
    near = x < HALF
    half = (ONE - x) * HALF
    root = math.sqrt(half)
    error = fma_single(-root, root, half) / (root + root + SMALLEST_NORMAL)
    r = np.float64(x) if near else np.float64(root) + np.float64(error)
    t = r * r
    return fma_double(r * t, asin_terms(t), r)


def asin(x: Number) -> Number:
    """Computes the inverse sine; NaN for |x| > 1."""
    size = abs(x)
    angle = asin_of_half(size)
    return with_sign_of(angle if size < HALF else fma_double(-2.0, angle, HALF_PI), x)


def acos(x: Number) -> Number:
    """Computes the inverse cosine; NaN for |x| > 1."""
    size = abs(x)
    angle = asin_of_half(size)
    negative = x < ZERO
    signed = -angle if negative else angle
    twice = signed + signed
    far = PI + twice if negative else twice
    return single(HALF_PI - signed if size < HALF else far)


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
