"""Float64 error functions that LLVM vectorizes: erf, erfc, erfinv.

Their results are within 3 units in the last place.
"""

from __future__ import annotations

import math

from structir.targets.cpu.math.bits import bits_of_double, double_of_bits, fma_double, polynomial
from structir.targets.cpu.math.double import LOG2_E, ROUNDER, fma_exact
from structir.targets.cpu.math.options import Number
from structir.targets.cpu.math.wide import (
    MAGNITUDE,
    ROUNDER_BITS,
    SIGN,
    less_one,
    power_of_two,
    reduced,
    scaled,
)
from structir.targets.cpu.math.wide_logarithm import log_of_sum

LAST = 6.0  # from here on erf rounds to 1
LAST_COMPLEMENT = 27.31  # and erfc to 0
OFFSET, TAIL_OFFSET = 3.0, 4.0
CENTER, MIDDLE, TAIL = 3.125, 3.25, 5.05
INFINITY, NAN = float("inf"), float("nan")

# erf(x)/x - 1 in x**2, |x| <= 1
erf_terms = polynomial(
    0.12837916709551256,
    -0.37612638903183543,
    0.11283791670945006,
    -0.02686617064323777,
    0.0052239776071164225,
    -0.0008548325975389692,
    0.00012055294904839707,
    -1.492473690741966e-05,
    1.6447424703317362e-06,
    -1.6208483801871705e-07,
    1.3720064546777686e-08,
    -7.795898827002142e-10,
)

# erfc(x) * exp(x**2) / t in t = 1 / (x + 3), 1 <= x <= 6
near_tail_terms = polynomial(
    0.5641857462963071,
    1.6928953291469981,
    4.782794130066118,
    13.001549074305395,
    25.86694796836427,
    126.39172485710142,
    -390.74675576272045,
    3539.3187826689546,
    -16373.919502572708,
    58637.938367591436,
    -151525.59965641526,
    244017.17979688445,
    -218176.14746187115,
    83573.51280484414,
)

# erfc(x) * exp(x**2) / t in 1 - 8 * t, t = 1 / (x + 4), 0 <= x <= 28
tail_terms = polynomial(
    1.095995661000491,
    -0.9765487290808821,
    0.7732087022652374,
    -0.5408538313132201,
    0.33085158787798813,
    -0.17401093724044453,
    0.07638151490987771,
    -0.02637005333230321,
    0.0061120556492774555,
    -0.00028095893558087193,
    -0.0004550526455639654,
    0.00017681319046764806,
    -3.635296646587849e-06,
    -1.886213507131139e-05,
    4.694619976583313e-06,
    1.4268525380407012e-06,
    -8.46291501725211e-07,
    -7.900030007324783e-08,
    1.2397022621920958e-07,
    3.3863100022513686e-09,
    -1.5213206819950384e-08,
    -6.36903746253068e-10,
    9.084541771213907e-10,
)

# erfinv(x)/x for w = -log(1 - x**2): in w - 3.125 for w <= 6.25; above, in sqrt(w) - 3.25 up to 4
# and in sqrt(w) - 5.05 up to 6.1
center_terms = polynomial(
    1.6536545626831027,
    0.24015818242558834,
    -0.006033670871426851,
    -0.0007407025341546431,
    0.00018673420801981186,
    -1.3882523393957483e-05,
    -1.3654691758785656e-06,
    4.23478816822246e-07,
    -2.907039127564132e-08,
    -4.1126604371632185e-09,
    1.051223377050429e-09,
    -5.414303283919504e-11,
    -1.2978805369932565e-11,
    2.6305268312595183e-12,
    -8.07192593899004e-14,
    -4.0020031087558496e-14,
    6.521333511502239e-15,
    -3.94018812230432e-17,
    -1.2215637192404172e-16,
    1.5510787009902526e-17,
    6.075050702072414e-19,
    -3.4734793888538036e-19,
    1.999259988861535e-20,
    3.194015548136271e-21,
    -3.5932028927020693e-22,
)
middle_terms = polynomial(
    3.0838856104922208,
    1.0052589676941652,
    0.00537091455357168,
    -0.003751208508215561,
    0.0024914420969817607,
    -0.0016882755357337071,
    0.0009532893637435638,
    -0.00035503780975963814,
    2.4031257015092525e-05,
    6.828708654753377e-05,
    -4.731898412011245e-05,
    1.2465167157087251e-05,
    2.9257291901789823e-06,
    -3.986084395214756e-06,
    1.4987130784186127e-06,
    -2.7004219280868947e-08,
    -2.713451105439456e-07,
    1.3104351499972014e-07,
    6.969241977629694e-10,
    -1.5102695423335065e-08,
)
outer_terms = polynomial(
    4.90042105144364,
    1.010285017597772,
    -0.00016985809149340308,
    -0.0002003120066802735,
    7.124031542245362e-05,
    -1.837453613912565e-05,
    4.193853753803148e-06,
    -9.070860240222449e-07,
    2.0161905521548853e-07,
    -5.493197748316719e-08,
    2.1821840910471057e-08,
    -1.1207461299741068e-08,
    5.805888104528111e-09,
    -2.6311132048940677e-09,
    1.0483309310240925e-09,
    -3.868291027600667e-10,
    7.745384761724372e-11,
    2.8907082659821905e-11,
    -1.5439278197208357e-11,
)


def erf(x: Number) -> Number:
    """Computes the error function: a polynomial up to 1, 1 - erfc(x) above."""
    bits = bits_of_double(x)
    size = double_of_bits(bits & MAGNITUDE)
    bounded = LAST if size > LAST else size
    t = 1.0 / (bounded + OFFSET)
    square = bounded * bounded
    shifted = fma_double(-square, LOG2_E, ROUNDER)
    gauss = less_one(reduced(shifted - ROUNDER, -square)) + 1.0
    gauss = gauss * power_of_two(bits_of_double(shifted) - ROUNDER_BITS)
    large = 1.0 - gauss * (t * near_tail_terms(t))
    small = fma_double(size, erf_terms(square), size)
    value = small if size < 1.0 else large
    value = double_of_bits(bits_of_double(value) | (bits & SIGN))
    return x if x != x else value


def erfc(x: Number) -> Number:
    """Computes 1 - erf(x), with its relative accuracy for large x; exp(-x**2) is computed of the
    exact square."""
    size = abs(x)
    bounded = LAST_COMPLEMENT if size > LAST_COMPLEMENT else size
    total = bounded + TAIL_OFFSET
    t = 1.0 / total
    t_low = (fma_exact(-t, total, 1.0) - t * (bounded - (total - TAIL_OFFSET))) * t
    u = fma_double(-2.0 * TAIL_OFFSET, t_low, fma_double(-2.0 * TAIL_OFFSET, t, 1.0))
    square = bounded * bounded
    lost = fma_exact(bounded, bounded, -square)
    shifted = fma_double(-square, LOG2_E, ROUNDER)
    gauss = less_one(reduced(shifted - ROUNDER, -square) - lost) + 1.0
    tail = gauss * ((t + t_low) * tail_terms(u))
    tail = scaled(tail, bits_of_double(shifted) - ROUNDER_BITS)
    value = 2.0 - tail if x < 0.0 else tail
    return x if x != x else value


def erfinv(x: Number) -> Number:
    """Computes the inverse of erf; infinite at +-1, NaN for |x| > 1."""
    size = abs(x)
    inner = 0.0 if size >= 1.0 else size
    w = -log_of_sum((1.0 - inner) * (1.0 + inner), 0.0, 0.0)
    root = math.sqrt(w)
    center = center_terms(w - CENTER)
    middle = middle_terms(root - MIDDLE)
    outer = outer_terms(root - TAIL)
    value = x * (center if root < 2.5 else (middle if root < 4.0 else outer))
    value = x * INFINITY if size == 1.0 else value
    return value if size <= 1.0 else NAN
