"""Statistics of samples: modes, ranks and standard errors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_float
from structir.numpy import (
    creation,
    elementwise,
    indexing,
    nan_reductions,
    reals,
    reductions,
    shaping,
    sorting,
)
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.context import traced

__all__ = ["ModeResult"]
METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The result of `mode`."""

    mode: TracedArray
    count: TracedArray  # type: ignore[assignment]  # hides that of tuples


def _moved(a: Any, axis: int | None) -> tuple[TracedArray, int]:
    """Returns an array whose axis is the last one, and the axis; None is all elements."""
    array = shaping.atleast_1d(operand(a))
    if axis is None:
        return shaping.ravel(array), 0
    position = shaping.axis_of(axis, array.ndim)
    return shaping.moveaxis(array, position, -1), position


def _policy(name: str, nan_policy: str, known: tuple[str, ...]) -> None:
    if nan_policy not in known:
        expected = " or ".join(map(repr, known))
        message = f"{name}: nan_policy: expected {expected}, found {nan_policy!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))


@traced
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """Returns the most frequent element along an axis, the smallest of several, and its count."""
    _policy("mode", nan_policy, ("propagate",))
    array, position = _moved(a, axis)
    values = sorting.sort(array, -1)
    first, _ = _runs(values)
    counts = creation.arange(values.shape[-1]) - first + 1
    longest = shaping.expand_dims(reductions.argmax(counts, -1), -1)  # the end of the first one
    from_rows = [indexing.take_along_axis(x, longest, -1) for x in (values, counts)]
    if not keepdims:
        return ModeResult(*[x[..., 0] for x in from_rows])
    if axis is None:
        ones = (1,) * operand(a).ndim
        return ModeResult(*[shaping.reshape(x, ones) for x in from_rows])
    return ModeResult(*[shaping.moveaxis(x, -1, position) for x in from_rows])


def _runs(values: TracedArray) -> tuple[TracedArray, TracedArray]:
    """Returns for each element of sorted rows the first and the last position of its value."""
    count = values.shape[-1]
    places = creation.arange(count)
    is_changed = values[..., 1:] != values[..., :-1]
    edge = creation.ones((*values.shape[:-1], 1), bool)
    starts = shaping.concatenate([edge, is_changed], -1)
    ends = shaping.concatenate([is_changed, edge], -1)
    first = reductions.cummax(elementwise.where(starts, places, 0), -1)
    last = shaping.flip(elementwise.where(ends, places, count - 1), -1)
    return first, shaping.flip(reductions.cummin(last, -1), -1)


@traced
def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> TracedArray:
    """Returns the ranks of elements from 1, as floats.

    Equal elements have the average of their ranks, the smallest ("min") or the largest ("max"); or
    ranks count different elements ("dense"), or elements in their order ("ordinal"). All ranks are
    NaN if an element is.
    """
    _policy("rankdata", nan_policy, ("propagate",))
    if method not in METHODS:
        message = f"rankdata: method: expected one of {', '.join(METHODS)}, found {method!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    array, position = _moved(a, axis)
    ranks = _ranks(array, method)
    if is_float(array.dtype_name):
        is_undefined = reductions.any(elementwise.isnan(array), -1, keepdims=True)
        ranks = elementwise.where(is_undefined, math.nan, ranks)
    return ranks if axis is None else shaping.moveaxis(ranks, -1, position)


def _ranks(array: TracedArray, method: str) -> TracedArray:
    """Returns the ranks of the elements of rows."""
    order = sorting.argsort(array, -1)
    values = indexing.take_along_axis(array, order, -1)
    first, last = (cast(x, "float32") for x in _runs(values))
    ranks = {"min": first, "max": last, "average": (first + last) / 2}.get(method)
    if method == "ordinal":
        ranks = cast(
            shaping.broadcast_to(creation.arange(values.shape[-1]), values.shape), "float32"
        )
    elif method == "dense":
        is_changed = cast(values[..., 1:] != values[..., :-1], "int32")
        zero = creation.zeros((*values.shape[:-1], 1), "int32")
        ranks = cast(reductions.cumsum(shaping.concatenate([zero, is_changed], -1), -1), "float32")
    assert ranks is not None
    return indexing.take_along_axis(ranks, sorting.argsort(order, -1), -1) + 1


@traced
def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> TracedArray:
    """Returns the standard error of the mean along an axis; "omit" leaves out NaN."""
    _policy("sem", nan_policy, ("propagate", "omit"))
    array = elementwise.real(a)
    if nan_policy == "omit":
        count = reductions.sum(~elementwise.isnan(array), axis, keepdims=keepdims)
        deviation = nan_reductions.nanstd(array, axis, ddof=ddof, keepdims=keepdims)
        return deviation / reals.sqrt(cast(count, array.dtype_name))
    size = array.size if axis is None else array.shape[axis]
    deviation = reductions.std(array, axis, ddof=ddof, keepdims=keepdims)
    return deviation / reals.sqrt(cast(operand(size), array.dtype_name))
