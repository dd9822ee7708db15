"""Float32 error functions: erf, erfc, erfinv, and 1 + erf as a rational function."""

from __future__ import annotations

import math

import numpy as np

from structir.targets.cpu.features import has_wide_vectors
from structir.targets.cpu.math.bits import bits_of_single, fma_single, polynomial, single_of_bits
from structir.targets.cpu.math.double import exp_core
from structir.targets.cpu.math.exponential import MAGNITUDE, ONE, SIGN, ZERO, exp_normal
from structir.targets.cpu.math.logarithm import log
from structir.targets.cpu.math.options import Number

single = np.float32
SMALL, LAST = single(0.93), single(4.0)  # from 4 on erf rounds to 1
LAST_COMPLEMENT, TAIL_OFFSET = 11.0, 3.0  # from 11 on erfc rounds to 0
CENTER, TAIL, MOST_CENTRAL = single(2.5), single(3.2), single(5)
INFINITY, NAN = single(np.inf), single(np.nan)

# erf(x)/x - 1 in x**2, |x| <= 0.95
erf_terms = polynomial(
    0.12837916612625122,
    -0.37612631916999817,
    0.11283663660287857,
    -0.026857705786824226,
    0.005196953192353249,
    -0.0008097710669972003,
    8.18511689431034e-05,
)

# log(erfc(x)) on 0.9 .. 4
log_erfc_terms = polynomial(
    0.00016920306370593607,
    -1.1294883489608765,
    -0.6334008574485779,
    -0.10822036117315292,
    0.025080598890781403,
    -0.004156248178333044,
    0.000431392079917714,
    -2.0828485503443517e-05,
)

# erfc(x) * exp(x**2) / t in t = 1 / (x + 3), 0 <= x <= 11
tail_terms = polynomial(
    0.5642023500641369,
    1.6915280899832197,
    4.833572268066776,
    11.875171364687883,
    42.523181407414874,
    -47.08889842729751,
    919.4017304669472,
    -3729.949703972516,
    13280.378694026362,
    -29273.968201740816,
    32706.809100384133,
    -14625.021679349638,
)

# erfinv(x)/x for w = -log(1 - x**2) in w - 2.5, w <= 5; above in sqrt(w) - 3.2
center_terms = polynomial(
    1.5014094114303589,
    0.24664027988910675,
    -0.004177392926067114,
    -0.0012527264188975096,
    0.00021834939252585173,
    -4.972419901605463e-06,
    -3.4639851946849376e-06,
    4.681313612309168e-07,
    2.333596782477798e-08,
    -8.931926309685423e-09,
)
outer_terms = polynomial(
    3.0336365699768066,
    1.0046923160552979,
    0.0059761847369372845,
    -0.004292378202080727,
    0.0029252220410853624,
    -0.0020005826372653246,
    0.0011564467567950487,
    -0.0003475793346296996,
    -0.0001140608947025612,
    9.431827493244782e-05,
)

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


def erf(x: Number) -> Number:
    """Computes the error function."""
    bits = bits_of_single(x)
    size = single_of_bits(bits & MAGNITUDE)
    bounded = LAST if size > LAST else size
    g = log_erfc_terms(bounded)
    large = ONE - exp_normal(g)
    t = size * size
    p = erf_terms(t)
    small = fma_single(p, size, size)
    value = small if size < SMALL else large
    value = single_of_bits(bits_of_single(value) | (bits & SIGN))
    return value if x == x else x


def erfc(x: Number) -> Number:
    """Computes 1 - erf(x), with its relative accuracy for large x."""
    size = abs(np.float64(x))
    bounded = LAST_COMPLEMENT if size > LAST_COMPLEMENT else size
    t = 1.0 / (bounded + TAIL_OFFSET)
    tail = exp_core(-bounded * bounded) * (t * tail_terms(t))
    return single(2.0 - tail if x < ZERO else tail)


def erfinv(x: Number) -> Number:
    """Computes the inverse of erf; infinite at +-1, NaN for |x| > 1."""
    size = abs(x)
    inner = ZERO if size >= ONE else size
    w = -log((ONE - inner) * (ONE + inner))
    center, outer = center_terms(w - CENTER), outer_terms(math.sqrt(w) - TAIL)
    value = x * (center if w < MOST_CENTRAL else outer)
    value = x * INFINITY if size == ONE else value
    return value if size <= ONE else NAN
