"""Special functions of logarithms: terms of entropies, and of the normal distribution."""

from __future__ import annotations

import math
from typing import Any

from structir.numpy import elementwise, reals
from structir.scipy.special.functions import ndtr
from structir.tracing.array import TracedArray
from structir.tracing.context import traced

LOWER = {"float64": -20.0}  # below, the asymptotic series is accurate
UPPER = {"float64": 8.0}  # above, log(1 + y) is y


@traced
def xlog1py(x: Any, y: Any) -> TracedArray:
    """Returns x * log(1 + y), and 0 where x is 0."""
    (a, b), _ = elementwise.real_operands(x, y)
    is_bounded = (b > -1) & (b < math.inf)  # where the derivative by x is log(1 + y)
    is_zero = (a == 0) & ~elementwise.isnan(b) & ~is_bounded
    return a * reals.log1p(elementwise.where(is_zero, 0, b))


@traced
def rel_entr(p: Any, q: Any) -> TracedArray:
    """Returns p * log(p / q); 0 where p is 0 and q is not negative, else infinity."""
    (a, b), _ = elementwise.real_operands(p, q)
    is_inside, is_zero = (a > 0) & (b > 0), (a == 0) & (b >= 0)
    first, second = (elementwise.where(is_inside, x, 1) for x in (a, b))
    value = first * (reals.log(first) - reals.log(second))
    result = elementwise.where(is_inside, value, elementwise.where(is_zero, 0, math.inf))
    is_undefined = elementwise.isnan(a) | elementwise.isnan(b)
    return elementwise.where(is_undefined, math.nan, result)


@traced
def kl_div(p: Any, q: Any) -> TracedArray:
    """Returns p * log(p / q) - p + q."""
    (a, b), _ = elementwise.real_operands(p, q)
    return rel_entr(a, b) - a + b


@traced
def log_ndtr(x: Any) -> TracedArray:
    """Returns the logarithm of the normal distribution function, accurate in both tails."""
    array = elementwise.real(x)
    lower, upper = LOWER.get(array.dtype_name, -10.0), UPPER.get(array.dtype_name, 5.0)
    far = elementwise.where(array < lower, array, lower)
    square = 1 / (far * far)
    series: Any = 945.0
    for factor in (105, 15, 3, 1, 1):
        series = factor - square * series
    tail = -(far * far) / 2 - reals.log(-far) - math.log(2 * math.pi) / 2 + reals.log(series)
    middle = reals.log(ndtr(elementwise.clip(array, lower, upper)))
    near = elementwise.where(array > upper, -ndtr(-array), middle)
    return elementwise.where(array < lower, tail, near)
