"""The scaled complementary error function, and Dawson's integral."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.special_functions import scaled_erfc
from structir.numpy import elementwise, reals
from structir.scipy.derivatives import differentiable
from structir.tracing.array import TracedArray, emit, expression
from structir.tracing.context import session

STEP = 0.25  # of Rybicki's sum, whose error is exp(-(pi / 2 / STEP)**2)
REACH = 27  # its terms on each side
NEAR = 0.2  # below, the power series is accurate
SERIES_TERMS = 10


def _erfcx_derivative(x: TracedArray) -> TracedArray:
    return 2 * (x * erfcx(x) - 1 / math.sqrt(math.pi))


@differentiable(_erfcx_derivative)
def erfcx(x: Any) -> TracedArray:
    """Returns exp(x**2) erfc(x)."""
    distance = expression(elementwise.abs(x))
    right = emit(scaled_erfc(distance, session().builder.emit))
    return elementwise.where(x < 0, 2 * reals.exp(x * x) - right, right)


@differentiable(lambda x: 1 - 2 * x * dawsn(x))
def dawsn(x: Any) -> TracedArray:
    """Returns exp(-x**2) times the integral of exp(t**2) from 0 to x.

    Source: Rybicki, "Dawson's integral and the sampling theorem", 1989.
    """
    centre = 2 * reals.round(x / (2 * STEP))
    rest = x - centre * STEP
    total: Any = 0.0
    for k in range(-REACH, REACH + 1, 2):
        total = total + reals.exp(-reals.square(rest - k * STEP)) / (centre + k)
    small = elementwise.where(elementwise.abs(x) < NEAR, x, 0.0)
    series: Any = 1.0
    for k in range(SERIES_TERMS, 0, -1):
        series = 1 - 2 * small * small / (2 * k + 1) * series
    far = 1 / (2 * elementwise.where(x == 0, 1.0, x))
    is_far = elementwise.abs(x) > 1e8
    value = elementwise.where(is_far, far, total / math.sqrt(math.pi))
    return elementwise.where(elementwise.abs(x) < NEAR, small * series, value)
