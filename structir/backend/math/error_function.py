"""Float32 erf: a polynomial near 0, 1 - exp(polynomial) elsewhere; 1 + erf as a rational
function."""

from __future__ import annotations

import numpy as np

from structir.backend.cpu.features import has_wide_vectors
from structir.backend.math.bits import bits_of_single, fma_single, single_of_bits
from structir.backend.math.exponential import MAGNITUDE, ONE, SIGN, exp_normal
from structir.backend.math.options import Number, vectorisable

single = np.float32
SMALL, LAST = single(0.93), single(4.0)  # from 4 on erf rounds to 1

# erf(x)/x - 1 in x**2, |x| <= 0.95
S0, S1, S2 = single(0.12837916612625122), single(-0.37612631916999817), single(0.11283663660287857)
S3, S4, S5 = (
    single(-0.026857705786824226),
    single(0.005196953192353249),
    single(-0.0008097710669972003),
)
S6 = single(8.18511689431034e-05)

# log(erfc(x)) on 0.9 .. 4
L0, L1, L2 = (
    single(0.00016920306370593607),
    single(-1.1294883489608765),
    single(-0.6334008574485779),
)
L3, L4, L5 = (
    single(-0.10822036117315292),
    single(0.025080598890781403),
    single(-0.004156248178333044),
)
L6, L7 = single(0.000431392079917714), single(-2.0828485503443517e-05)

# erf(x)/x as a quotient in x**2, |x| <= 4: minimax for the absolute error of erf, 2e-8
P0, P1, P2 = single(1.128378987312317), single(0.19625131785869598), single(0.05346772447228432)
P3, P4, P5 = (
    single(0.004003723617643118),
    single(0.00028803941677324474),
    single(1.9747669739444973e-06),
)
Q1, Q2, Q3 = single(0.5072543621063232), single(0.11647733300924301), single(0.015444587916135788)
Q4, Q5 = single(0.0012163714272901416), single(3.748009476112202e-05)
DIVIDES_FAST = has_wide_vectors()
RECIPROCAL = np.int32(
    0x7EF311C0
)  # minus the bits of a number: the bits of its approximate reciprocal


@vectorisable
def erf_plus_one(x: Number) -> Number:
    """Computes 1 + erf(x) with an absolute error of 4.5e-7, and 4 ulp where the result is not
    small.

    The body is plain arithmetic, so that other devices can compile it. Where division is slow, the
    reciprocal is estimated from the exponent with a relative error of 1/20, and refined by one
    cubic and one quadratic step."""
    bounded = LAST if x > LAST else x
    bounded = -LAST if bounded < -LAST else bounded
    t = bounded * bounded
    over = bounded * (((((P5 * t + P4) * t + P3) * t + P2) * t + P1) * t + P0)
    under = ((((Q5 * t + Q4) * t + Q3) * t + Q2) * t + Q1) * t + ONE
    if DIVIDES_FAST:
        return ONE + over / under
    reciprocal = single_of_bits(RECIPROCAL - bits_of_single(under))
    error = ONE - under * reciprocal
    reciprocal = (error * error + error) * reciprocal + reciprocal
    quotient = over * reciprocal
    return ONE + ((over - under * quotient) * reciprocal + quotient)


@vectorisable
def erf(x: Number) -> Number:
    """Computes the error function."""
    bits = bits_of_single(x)
    size = single_of_bits(bits & MAGNITUDE)
    bounded = LAST if size > LAST else size
    g = fma_single(L7, bounded, L6)
    g = fma_single(g, bounded, L5)
    g = fma_single(g, bounded, L4)
    g = fma_single(g, bounded, L3)
    g = fma_single(g, bounded, L2)
    g = fma_single(g, bounded, L1)
    g = fma_single(g, bounded, L0)
    large = ONE - exp_normal(g)
    t = size * size
    p = fma_single(S6, t, S5)
    p = fma_single(p, t, S4)
    p = fma_single(p, t, S3)
    p = fma_single(p, t, S2)
    p = fma_single(p, t, S1)
    p = fma_single(p, t, S0)
    small = fma_single(p, size, size)
    value = small if size < SMALL else large
    value = single_of_bits(bits_of_single(value) | (bits & SIGN))
    return value if x == x else x
