"""Float32 remainders and floor quotients, exact for all finite arguments."""

from __future__ import annotations

import numpy as np

from structir.targets.cpu.intrinsics import nearest
from structir.targets.cpu.math.bits import bits_of_single, single_of_bits
from structir.targets.cpu.math.double import fma_exact
from structir.targets.cpu.math.exponential import SIGN
from structir.targets.cpu.math.options import Number

single = np.float32
ZERO, INFINITY = single(0), single(np.inf)


def reduce_modulo(x: Number, y: Number, inverse: Number) -> Number:
    """Computes x minus a multiple of y, between -y and y.

    Each step exactly subtracts a multiple with the leading 51 bits of the quotient; the quotient of
    two float32 numbers has at most 277 bits."""
    r = fma_exact(-nearest(x * inverse), y, x)
    r = fma_exact(-nearest(r * inverse), y, r)
    r = fma_exact(-nearest(r * inverse), y, r)
    r = fma_exact(-nearest(r * inverse), y, r)
    r = fma_exact(-nearest(r * inverse), y, r)
    r = fma_exact(-nearest(r * inverse), y, r)
    return x if abs(y) == np.inf and abs(x) < np.inf else r


def remainder(x: Number, y: Number) -> Number:
    """Computes the remainder of floor division, which has the sign of the divisor."""
    by = np.float64(y)
    r = reduce_modulo(np.float64(x), by, 1.0 / by)
    differs = (r < 0.0) != (by < 0.0) and r != 0.0
    result = single(r + by if differs else r)
    return single_of_bits(bits_of_single(y) & SIGN) if result == ZERO else result


def floor_quotient(x: Number, y: Number) -> Number:
    """Computes the quotient, rounded down."""
    wide, by = np.float64(x), np.float64(y)
    inverse = 1.0 / by
    r = reduce_modulo(wide, by, inverse)
    low = nearest((wide - r) * inverse)
    result = single(low - 1.0 if (r < 0.0) != (by < 0.0) and r != 0.0 else low)
    signed = single_of_bits((bits_of_single(x) ^ bits_of_single(y)) & SIGN)
    quotient = signed if result == ZERO else result
    return x / y if y == ZERO else quotient
