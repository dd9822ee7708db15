"""Rounding of values that kernels compute in a wider dtype than the program names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.ir.kernel_functions import NARROW, ROUND
from structir.loops.program.expression import (
    Expression,
    Load,
    Number,
    Operation,
    apply,
    number,
)

_skips: ContextVar[bool] = ContextVar("skips", default=False)
# Results of these functions of rounded values are rounded.
CLOSED = frozenset(
    {
        "abs",
        "accumulate_max",
        "accumulate_min",
        "ceil",
        "floor",
        "max",
        "min",
        "neg",
        "round",
        "sign",
        "trunc",
    }
)


@contextmanager
def roundings(skipped: bool) -> Iterator[None]:
    """Schedules kernels without the roundings between ops, if `skipped`."""
    token = _skips.set(skipped)
    try:
        yield
    finally:
        _skips.reset(token)


def are_skipped() -> bool:
    """Returns whether kernels are scheduled without the roundings between ops."""
    return _skips.get()


def rounded(value: Expression, dtype: str) -> Expression:
    """Returns the value as another op reads it, rounded to the dtype of the op that computed it."""
    if dtype not in NARROW or are_skipped() or _is_rounded(value, dtype):
        return value
    if isinstance(value, Number):
        with np.errstate(over="ignore"):
            nearest = np.asarray(value.value, numpy_dtype(dtype))
        return number(float(nearest), value.dtype)
    return apply(ROUND + dtype, (value,), value.dtype)


def stored(value: Expression, dtype: str) -> Expression:
    """Returns the value without the roundings that the store to an element of this dtype repeats:
    those that come last, or before the choice of a value."""
    if dtype not in NARROW or not isinstance(value, Operation):
        return value
    if value.fn == ROUND + dtype:
        return stored(value.args[0], dtype)
    if value.fn == "select":
        test, *choices = value.args
        args = (test, *[stored(choice, dtype) for choice in choices])
        return apply(value.fn, args, value.dtype, value.exact)
    return value


def unrounded(expression: Expression) -> Expression:
    """Returns the expression without the roundings between its ops."""
    if not isinstance(expression, Operation):
        return expression
    if expression.fn.startswith(ROUND):
        return unrounded(expression.args[0])
    args = tuple([unrounded(argument) for argument in expression.args])
    return apply(expression.fn, args, expression.dtype, expression.exact)


def _is_rounded(value: Expression, dtype: str) -> bool:
    if isinstance(value, Load):
        return value.buffer.dtype == dtype
    if not isinstance(value, Operation):
        return False
    if value.fn == "select":
        return all(_is_rounded(choice, dtype) for choice in value.args[1:])
    if value.fn == "cast":
        return value.args[0].dtype == "bool"
    return value.fn == ROUND + dtype or (
        value.fn in CLOSED and all(_is_rounded(argument, dtype) for argument in value.args)
    )
