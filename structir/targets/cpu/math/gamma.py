"""Functions related to the gamma function, in float64 for both dtypes, that LLVM vectorizes.

The error of lgamma is at most 3 units in the last place of the result or of 1, whichever is larger.
"""

from __future__ import annotations

import numpy as np

from structir.targets.cpu.intrinsics import floor, nearest
from structir.targets.cpu.math.bits import fma_double, polynomial, rare
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.math.wide_logarithm import log

HALF_LOG_TWO_PI = 0.9189385332046728
LEAST_SERIES = 8.5  # Stirling's series is accurate from here on
LEAST = -7.0  # below, the C library computes lgamma
INFINITY = float("inf")
rare_lgamma = rare("numba_lgamma")  # the name that numba gives the C function

# lgamma(2 + h) / h, |h| <= 1/2
lgamma_terms = polynomial(
    0.42278433509846713,
    0.3224670334241132,
    -0.06735230105319563,
    0.02058080842778338,
    -0.007385551028935545,
    0.002890510330865901,
    -0.0011927539009983087,
    0.0005096695196526673,
    -0.00022315497746292723,
    9.945761692157133e-05,
    -4.4923727564247656e-05,
    2.050601970174762e-05,
    -9.45628851510172e-06,
    4.3828545383846665e-06,
    -1.9743106888421067e-06,
    9.242852225162277e-07,
    -5.811277768921246e-07,
    2.7475390051909663e-07,
)

# (lgamma(y) - (y - 1/2) * log(y) + y - log(2 * pi) / 2) * y in 1 / y**2, y >= 8
stirling_terms = polynomial(
    0.0833333333333333,
    -0.002777777777606244,
    0.0007936506649488252,
    -0.0005952025951802712,
    0.0008372834512071336,
    -0.0016526004455595122,
)

# (sin(pi * r) / (pi * r) - 1) / r**2 in r**2, |r| <= 1/2
sine_terms = polynomial(
    -1.6449340668482264,
    0.8117424252833519,
    -0.19075182412194128,
    0.026147847813078808,
    -0.0023460809634923995,
    0.00014842817816693618,
    -6.972960555564221e-06,
    2.459180384815939e-07,
)


def factor_above(z: Number, k: Number) -> Number:
    """Returns z - k if that is at least 1.5, else 1: the factors of the recurrence."""
    return z - k if z - k >= 1.5 else 1.0


def lgamma(x: Number) -> Number:
    """Computes log(abs(gamma(x))): around 2 as a polynomial, from 8.5 on as Stirling's series.

    The recurrence gamma(x + 1) = x * gamma(x) leads from other numbers to 1.5 .. 2.5. Below -1/2 it
    is the reflection, -log(gamma(1 - x)) - log(sin(pi * x) / pi)."""
    reflected = x < -0.5
    z = 1.0 - x if reflected else x
    product = (factor_above(z, 1.0) * factor_above(z, 2.0)) * factor_above(z, 3.0)
    product *= (factor_above(z, 4.0) * factor_above(z, 5.0)) * factor_above(z, 6.0)
    by_series = z >= LEAST_SERIES
    h = z - (floor(z - 1.5) + 2.0)
    below = z < 1.5
    h = (z if z < 0.5 else z - 1.0) if below else h
    base = h * lgamma_terms(h)
    r = x - nearest(x)
    square = r * r
    sine = abs(fma_double(r * square, sine_terms(square), r))
    low_product = abs(x * (x + 1.0)) if z < 0.5 else z
    number = low_product if below else product
    number = number * sine if reflected else number
    number = z if by_series else number
    logarithm = log(number)
    logarithm = -logarithm if below or reflected else logarithm
    value = (-base if reflected else base) + logarithm
    inverse = 1.0 / z
    series = fma_double(z - 0.5, logarithm - 1.0, HALF_LOG_TWO_PI - 0.5)
    series = fma_double(stirling_terms(inverse * inverse), inverse, series)
    value = series if by_series else value
    return rare_lgamma(x) if x < LEAST else value


def lgamma_single(x: Number) -> Number:
    """Computes lgamma of a float32."""
    return np.float32(lgamma(np.float64(x)))
