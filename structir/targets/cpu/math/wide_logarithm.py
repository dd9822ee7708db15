"""Float64 logarithms and functions based on them, which LLVM vectorizes: log, log1p, asinh, acosh,
atanh, pow.

Their results are within 2.5 units in the last place. The argument reduction and the coefficients of
`log_terms` are those of FDLIBM (Sun Microsystems, 1993).
"""

from __future__ import annotations

import math

import numpy as np

from structir.targets.cpu.math.bits import bits_of_double, double_of_bits, fma_double, polynomial
from structir.targets.cpu.math.double import (
    EXPONENT_MASK,
    LN_2_HIGH,
    LN_2_LOW,
    SQRT_HALF_BITS,
    fma_exact,
)
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.math.wide import MANTISSA_BITS, SIGN, SMALL, power_of_sum

LEAST_NORMAL, RAISED, RAISED_BITS = 2.2250738585072014e-308, 18014398509481984.0, 54.0
INFINITY, NAN = float("inf"), float("nan")
LARGE = 2.0**28  # asinh(x) is log(2 * x) from here on
THIRD, THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
TWICE_LOG2_E, TWICE_LOG2_E_LOW = 2.8853900817779268, 4.0710547481862066e-17
LARGEST_EXPONENT = 1e40  # a larger exponent has the same power, of any base

# (log(1 + f) - f + f * f / 2 - s * f * f / 2) / (s * s * s) in s**2, s = f / (2 + f)
log_terms = polynomial(
    0.6666666666666735130,
    0.3999999999940941908,
    0.2857142874366239149,
    0.2222219843214978396,
    0.1818357216161805012,
    0.1531383769920937332,
    0.1479819860511658591,
)

# (atanh(s)/s - 1 - s**2/3) / s**4 in s**2, |s| <= 0.1716
atanh_terms = polynomial(
    0.2,
    0.14285714285714685,
    0.11111111110827367,
    0.0909090916782708,
    0.07692297467298959,
    0.06667403106050301,
    0.05853097844940682,
    0.058618018114527055,
)


def log_of_sum(x: Number, low: Number, twos: Number) -> Number:
    """Computes log(x) + twos * log(2) + low for a normal x, where `low` is small."""
    bits = bits_of_double(x)
    offset = bits - SQRT_HALF_BITS
    n = float(offset >> MANTISSA_BITS) + twos
    f = double_of_bits(bits - (offset & EXPONENT_MASK)) - 1.0
    s = f / (2.0 + f)
    t = s * s
    half = 0.5 * f * f
    value = fma_double(s, fma_double(log_terms(t), t, half), fma_double(n, LN_2_LOW, low))
    return fma_double(n, LN_2_HIGH, f - (half - value))


def log(x: Number) -> Number:
    """Computes log(x): -inf at 0, NaN for x < 0."""
    is_subnormal = x < LEAST_NORMAL
    normal = x * RAISED if is_subnormal else x
    value = log_of_sum(normal, 0.0, -RAISED_BITS if is_subnormal else 0.0)
    value = x if x == INFINITY else value
    value = -INFINITY if x == 0.0 else value
    return value if x >= 0.0 else NAN


def log1p(x: Number) -> Number:
    """Computes log(1 + x) without cancellation: what the sum has lost is added to its logarithm."""
    total = 1.0 + x
    back = total - x
    lost = (1.0 - back) + (x - (total - back))
    value = log_of_sum(total, lost / total, 0.0)
    value = x if (abs(x) < SMALL) | (x == INFINITY) else value
    value = -INFINITY if x == -1.0 else value
    return value if x >= -1.0 else NAN


def log1p_or_log(x: Number, is_large: Number, large: Number) -> Number:
    """Computes log(1 + x) of a non-negative x, or log(2 * large) where `is_large`."""
    total = 1.0 + x
    back = total - x
    lost = (1.0 - back) + (x - (total - back))
    number = large if is_large else total
    value = log_of_sum(number, 0.0 if is_large else lost / total, 1.0 if is_large else 0.0)
    return number if (number == INFINITY) | (number != number) else value


def asinh(x: Number) -> Number:
    """Computes the inverse hyperbolic sine as log1p(x + x**2 / (1 + sqrt(1 + x**2)))."""
    size = abs(x)
    bounded = LARGE if size > LARGE else size
    square = bounded * bounded
    inner = bounded + square / (1.0 + math.sqrt(1.0 + square))
    value = log1p_or_log(inner, size > LARGE, size)
    value = size if size < SMALL else value
    return double_of_bits(bits_of_double(value) | (bits_of_double(x) & SIGN))


def acosh(x: Number) -> Number:
    """Computes the inverse hyperbolic cosine as log1p(t + sqrt(2 * t + t**2)) for t = x - 1; NaN
    for x < 1."""
    t = (LARGE if x > LARGE else x) - 1.0
    value = log1p_or_log(t + math.sqrt(t + t + t * t), x > LARGE, x)
    return value if x >= 1.0 else NAN


def atanh(x: Number) -> Number:
    """Computes the inverse hyperbolic tangent as log1p(2 * x / (1 - x)) / 2; infinite at +-1, NaN
    for |x| > 1."""
    size = abs(x)
    twice = size + size
    inner = fma_double(twice, size / (1.0 - size), twice)
    value = 0.5 * log1p_or_log(inner, False, size)
    value = size if size < SMALL else value
    value = INFINITY if size == 1.0 else value
    value = double_of_bits(bits_of_double(value) | (bits_of_double(x) & SIGN))
    return value if size <= 1.0 else NAN


def log2_parts(x: Number, twos: Number) -> Number:
    """Returns log2(x) + twos of a normal x as a sum of two doubles, with a relative error of
    2**-64.

    It is the exponent plus 2 * atanh(s) / log(2) for s = (m - 1) / (m + 1). The series of atanh and
    the first two of its terms are sums of two doubles."""
    bits = bits_of_double(x)
    offset = bits - SQRT_HALF_BITS
    n = float(offset >> MANTISSA_BITS) + twos
    m = double_of_bits(bits - (offset & EXPONENT_MASK))
    over, under = m - 1.0, m + 1.0
    inverse = 1.0 / under
    s = over * inverse
    s_low = (fma_exact(-s, under, over) - s * (m - (under - 1.0))) * inverse
    square = s * s
    square_low = fma_exact(s, s, -square) + 2.0 * s * s_low
    third = square * THIRD
    third_low = fma_exact(square, THIRD, -third) + (square * THIRD_LOW + square_low * THIRD)
    rest = square * square * atanh_terms(square)
    series = third + rest
    series_low = ((third - series) + rest) + third_low
    factor = 1.0 + series
    factor_low = ((1.0 - factor) + series) + series_low
    atanh = s * factor
    atanh_low = fma_exact(s, factor, -atanh) + (s * factor_low + s_low * factor)
    log2 = atanh * TWICE_LOG2_E
    log2_low = fma_exact(atanh, TWICE_LOG2_E, -log2)
    log2_low += atanh * TWICE_LOG2_E_LOW + atanh_low * TWICE_LOG2_E
    total = n + log2
    return total, ((n - total) + log2) + log2_low


def pow(x: Number, y: Number) -> Number:
    """Computes x ** y with the special cases of C."""
    size = abs(x)
    is_subnormal = size < LEAST_NORMAL
    normal, twos = (
        (size * RAISED if is_subnormal else size),
        (-RAISED_BITS if is_subnormal else 0.0),
    )
    high, low = log2_parts(normal, twos)
    exponent = LARGEST_EXPONENT if y > LARGEST_EXPONENT else y
    exponent = -LARGEST_EXPONENT if exponent < -LARGEST_EXPONENT else exponent
    product = exponent * high
    product_low = fma_exact(exponent, high, -product) + exponent * low
    extreme = size == 0.0 or size == INFINITY
    end = -INFINITY if size == 0.0 else INFINITY
    product = y * end if extreme else product
    product_low = 0.0 if extreme or abs(product) > 2000.0 else product_low
    value = power_of_sum(product, product_low)
    value = 1.0 if size == 1.0 and y == y else value
    is_integer = np.floor(y) == y
    half = y * 0.5
    odd = is_integer and np.floor(half) != half
    negative = bits_of_double(x) < 0
    value = -value if negative and odd else value
    defined = is_integer or not x < 0.0 or size == INFINITY
    value = value if defined and x == x else NAN
    return 1.0 if y == 0.0 or x == 1.0 else value
