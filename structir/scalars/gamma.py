"""The logarithm of the gamma function and its derivative: the scalar function and the ops."""

import math
from typing import Any

from structir.ir.scalar_functions import declare
from structir.lazy import lazy_module
from structir.opdef.define import op
from structir.projections import scalar_expr as e
from structir.projections.scalar_expr import ScalarExpr
from structir.scalars.polynomial import polynomial

np = lazy_module("numpy")
special = lazy_module("scipy.special")
vector = lazy_module("structir.targets.cpu.math.gamma")

SHIFT = 8  # the asymptotic series is accurate from here on
# (log(y) - 1/(2 * y) - digamma(y)) * y**2 in 1 / y**2, y >= 8
SERIES = (
    0.08333333333333333,
    -0.008333333333278636,
    0.0039682539119537084,
    -0.0041666448230497,
    0.007571689620283902,
    -0.020697987372370493,
    0.06362150587634356,
)


def _sum_of_reciprocals(z: Any) -> Any:
    """Returns the sum of 1 / (z + k) for k below SHIFT; z + k and z + SHIFT - 1 - k share a
    quotient."""
    last = SHIFT - 1
    product, center = z * (z + last), 2 * z + last
    return sum(center / (product + k * (last - k)) for k in range(SHIFT // 2))


LARGE = 1e18  # beyond, reciprocals are too small to matter, and their products overflow


def _digamma(x: Any) -> ScalarExpr:
    """Returns digamma by its series of z + 8, the recurrence, and the reflection below 1/2."""
    is_reflected = x < 0.5
    z = e.select(is_reflected, 1 - x, x)
    y = z + SHIFT
    inverse = 1 / y
    series = polynomial(inverse * inverse, SERIES) * (inverse * inverse)
    value = e.log(y) - 0.5 * inverse - series - _sum_of_reciprocals(e.min(z, LARGE))
    turns = e.select(is_reflected, x - e.round(x), 0.25)  # of others, the derivative is finite
    reflection = math.pi / e.tan(math.pi * turns)
    pole = e.select(x < 0, math.nan, 1 / x)  # infinite at 0, with its sign
    reflection = e.select(e.eq(turns, 0), pole, reflection)
    result: ScalarExpr = value - e.select(is_reflected, reflection, 0.0)
    return result


declare(
    "lgamma",
    numpy=lambda x: special.gammaln(np.where(x == -math.inf, math.inf, x)),  # as in C
    slopes=(_digamma,),
    single=lambda: vector.lgamma_single,
    double=lambda: vector.lgamma,
    cost=40,
)


@op("x[*s] @ F -> y[*s] @ F")
def lgamma(x: ScalarExpr) -> ScalarExpr:
    """Computes the logarithm of the absolute value of the gamma function."""
    return e.lgamma(x)


@op("x[*s] @ F -> y[*s] @ F")
def digamma(x: ScalarExpr) -> ScalarExpr:
    """Computes the derivative of the logarithm of the gamma function; NaN at negative integers."""
    return _digamma(x)
