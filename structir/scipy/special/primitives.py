"""Special functions under the names of `jax.lax`."""

from __future__ import annotations

from typing import Any

from structir.numpy import elementwise
from structir.scipy.special import bessel, factorials, incomplete
from structir.tracing.array import TracedArray, cast
from structir.tracing.context import traced

igamma, igammac, betainc = incomplete.gammainc, incomplete.gammaincc, incomplete.betainc
bessel_i0e, bessel_i1e = bessel.i0e, bessel.i1e
zeta = factorials.zeta
__all__ = ["bessel_i0e", "bessel_i1e", "betainc", "igamma", "igammac", "zeta"]


@traced
def random_gamma_grad(a: Any, sample: Any) -> TracedArray:
    """Returns the derivative of samples of gamma distributions by their parameters."""
    (order, value), _ = elementwise.real_operands(a, sample)
    wide = incomplete.samples_by_order(cast(order, "float64"), cast(value, "float64"))
    return cast(wide, order.dtype_name)
