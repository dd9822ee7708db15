"""The regularized incomplete gamma and beta functions."""

from __future__ import annotations

from typing import Any

from structir.frontend.incomplete_beta import incomplete_beta
from structir.frontend.iterated_functions import incomplete_gamma
from structir.lax.primitives import lgamma
from structir.numpy import reals
from structir.scipy.derivatives import differentiable
from structir.scipy.special.entropy import xlog1py
from structir.scipy.special.functions import xlogy
from structir.tracing.array import TracedArray, emit, expression
from structir.tracing.context import session


def _gamma_density(a: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the density of the gamma distribution."""
    return reals.exp(xlogy(a - 1, x) - x - lgamma(a))


def _beta_density(a: TracedArray, b: TracedArray, x: TracedArray) -> TracedArray:
    """Returns the density of the beta distribution."""
    logarithm = xlogy(a - 1, x) + xlog1py(b - 1, -x)
    return reals.exp(logarithm + lgamma(a + b) - lgamma(a) - lgamma(b))


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


@differentiable(None, None, _beta_density)
def betainc(a: Any, b: Any, x: Any) -> TracedArray:
    """Returns the integral of t**(a - 1) (1 - t)**(b - 1) from 0 to x, divided by beta(a, b)."""
    values = [expression(v) for v in (a, b, x)]
    return emit(incomplete_beta(session().builder, *values))


