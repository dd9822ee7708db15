"""Arithmetic and choices whose rules differ from those of `structir.numpy`."""

from __future__ import annotations

import enum
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.numpy import elementwise, reals
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand, promoted
from structir.tracing.context import traced

__all__ = ["RoundingMethod"]


@traced
def div(x: Any, y: Any) -> TracedArray:
    """Returns x / y; integers are divided and rounded towards zero, and -1 where y is 0."""
    (a, b), _ = promoted(x, y)
    if dtypes.category(a.dtype_name) == dtypes.FLOAT:
        return elementwise.divide(a, b)
    quotient = elementwise.floor_divide(a, b)
    inexact = quotient * b != a
    quotient = quotient + cast(inexact & ((a < 0) != (b < 0)), a.dtype_name)
    return elementwise.where(b == 0, elementwise.bitwise_not(b), quotient)


@traced
def rem(x: Any, y: Any) -> TracedArray:
    """Returns the remainder of `div`, with the sign of x; of integers x where y is 0."""
    (a, b), _ = promoted(x, y)
    rest = elementwise.fmod(a, b)
    if dtypes.category(a.dtype_name) == dtypes.FLOAT:
        return rest
    return elementwise.where(b == 0, a, rest)


@traced
def integer_pow(x: Any, y: int) -> TracedArray:
    """Returns x to the power of a known integer. Raises DiagnosticError for another exponent."""
    if not isinstance(y, int):
        message = f"integer_pow: y: expected an int, found {y!r}"
        raise DiagnosticError(Diagnostic(message, hint="use `structir.lax.pow`", code="E1107"))
    return elementwise.power(x, y)


class RoundingMethod(enum.IntEnum):
    """How `round` rounds halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


@traced
def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> TracedArray:
    """Returns the nearest integers; halves are rounded away from zero, or to even numbers."""
    array = operand(x)
    is_float = dtypes.category(array.dtype_name) == dtypes.FLOAT
    if RoundingMethod(rounding_method) == RoundingMethod.TO_NEAREST_EVEN or not is_float:
        return reals.round(array)
    whole = reals.trunc(array)
    is_far = elementwise.abs(array - whole) >= 0.5
    return whole + elementwise.where(
        is_far, elementwise.sign(array), -0.0
    )  # to which -0.0 adds no sign


@traced
def select(pred: Any, on_true: Any, on_false: Any) -> TracedArray:
    """Returns `on_true` where the condition is true, else `on_false`."""
    return elementwise.where(pred, on_true, on_false)


@traced
def select_n(which: Any, *cases: Any) -> TracedArray:
    """Returns for each element that of the case with the number `which`, an integer or a bool.

    Raises DiagnosticError without cases, and for more than two of them and a bool.
    """
    number = operand(which)
    is_bool = number.dtype_name == "bool"
    if not cases or (is_bool and len(cases) > 2):
        expected = "one or two cases" if is_bool else "cases"
        message = f"select_n: expected {expected}, found {len(cases)}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    if is_bool and len(cases) == 2:
        return elementwise.where(number, cases[1], cases[0])
    result: Any = cases[-1]
    for k in range(len(cases) - 2, -1, -1):
        result = elementwise.where(number <= k, cases[k], result)
    return operand(result)


@traced
def clamp(min: Any, x: Any, max: Any) -> TracedArray:
    """Returns x limited to [min, max]."""
    return elementwise.clip(x, min, max)
