"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from typing import Any

from structir.frontend.special_functions import bessel_i
from structir.numpy import elementwise
from structir.tracing.array import TracedArray, cast, emit, expression
from structir.tracing.context import session, traced


def _of_order(x: Any, order: int, is_scaled: bool) -> TracedArray:
    array = elementwise.real(x)
    wide = expression(cast(array, "float64"))
    return cast(emit(bessel_i(wide, order, is_scaled, session().builder.emit)), array.dtype_name)


@traced
def i0(x: Any) -> TracedArray:
    """Returns the modified Bessel function of order 0."""
    return _of_order(x, 0, False)


@traced
def i0e(x: Any) -> TracedArray:
    """Returns exp(-|x|) i0(x)."""
    return _of_order(x, 0, True)


@traced
def i1(x: Any) -> TracedArray:
    """Returns the modified Bessel function of order 1."""
    return _of_order(x, 1, False)


@traced
def i1e(x: Any) -> TracedArray:
    """Returns exp(-|x|) i1(x)."""
    return _of_order(x, 1, True)
