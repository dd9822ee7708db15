"""The regularized incomplete gamma and beta functions."""

from __future__ import annotations

import math
from typing import Any

from structir.frontend.incomplete_beta import incomplete_beta
from structir.frontend.iterated_functions import incomplete_gamma
from structir.lax.primitives import lgamma
from structir.numpy import reals
from structir.numpy.creation import ones_like
from structir.numpy.elementwise import where
from structir.scipy.derivatives import differentiable
from structir.tracing.array import TracedArray, emit, expression
from structir.tracing.context import session
from structir.transforms.gradients import jvp


def _gamma_density(a: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the density of the gamma distribution, and 0 at its ends."""
    is_inside = (x > 0) & (x < math.inf)
    safe = where(is_inside, x, 1.0)
    return where(is_inside, reals.exp((a - 1) * reals.log(safe) - safe - lgamma(a)), 0.0)


def _beta_density(a: TracedArray, b: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the density of the beta distribution, and 0 at its ends."""
    is_inside = (x > 0) & (x < 1)
    safe = where(is_inside, x, 0.5)
    power = (a - 1) * reals.log(safe) + (b - 1) * reals.log1p(-safe)
    density = reals.exp(power + lgamma(a + b) - lgamma(a) - lgamma(b))
    return where(is_inside, density, 0.0)


@differentiable(None, _gamma_density)
def gammainc(a: Any, x: Any) -> TracedArray:
    """Returns the integral of t**(a - 1) exp(-t) from 0 to x, divided by gamma(a)."""
    return _incomplete_gamma(a, x, False)


@differentiable(None, lambda a, x: -_gamma_density(a, x))
def gammaincc(a: Any, x: Any) -> TracedArray:
    """Returns 1 - gammainc(a, x), accurate for large x."""
    return _incomplete_gamma(a, x, True)


def _incomplete_gamma(a: TracedArray, x: TracedArray, is_upper: bool) -> TracedArray:
    return emit(incomplete_gamma(session().builder, expression(a), expression(x), is_upper))


def samples_by_order(a: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the derivative of samples x of gamma distributions by a, at a constant quantile."""

    def lower(order: TracedArray) -> TracedArray:
        return _incomplete_gamma(order, x, False)

    by_order: TracedArray = jvp(lower, (a,), (ones_like(a),))[1]
    return -by_order / _gamma_density(a, x)


@differentiable(None, None, _beta_density)
def betainc(a: Any, b: Any, x: Any) -> TracedArray:
    """Returns the integral of t**(a - 1) (1 - t)**(b - 1) from 0 to x, divided by beta(a, b)."""
    values = [expression(v) for v in (a, b, x)]
    return emit(incomplete_beta(session().builder, *values))
