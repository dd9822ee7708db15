"""Ops whose result has a size that only the data tells."""

from __future__ import annotations

from typing import Any

from structir.lazy import lazy_module
from structir.ops.attributes import Axis
from structir.ops.define import op
from structir.ops.examples import i64
from structir.ops.given import Given, Written
from structir.ops.letters import written

np = lazy_module("numpy")
Array = Any


def distinct(given: Given) -> Written:
    """The values, then the vectors that the flags ask for."""
    rank = given.rank("x")
    values = "y[_]"
    if given["axis"] is not None:
        if rank is not None:
            given.axis("axis", rank)
        values = "y[*u]" if rank is None else written("y", ["_"] * rank)
    flags = ("return_index", "return_inverse", "return_counts")
    vectors = [f"{flag}[_] @ int64" for flag in flags if given[flag]]
    return Written(f"x[*s] -> {', '.join([values, *vectors])}")


@op(distinct)
def unique(
    x: Array,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Axis | None = None,
) -> Any:
    """The distinct elements, or slices along an axis, in order or as they come first."""
    return x


@unique.reference
def _(
    x: Array,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    values, index, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not sorted:
        order = np.argsort(index)
        values, index, counts = np.take(values, order, axis=axis or 0), index[order], counts[order]
        inverse = np.argsort(order)[inverse]
    asked = zip(
        (return_index, return_inverse, return_counts), (index, inverse, counts), strict=True
    )
    parts = [part.reshape(-1).astype("int64") for wanted, part in asked if wanted]
    return (values, *parts) if parts else values


unique.undifferentiable("how many distinct elements there are depends on their values")


@op("x[*s] -> out[_, _] @ int64")
def nonzero(x: Array) -> Array:
    """The coordinates of the elements that are not zero: a row for each axis."""
    return x


@nonzero.reference
def _(x: Array) -> Array:
    return np.argwhere(np.atleast_1d(x)).T.astype("int64")


nonzero.example(i64[2, 3].below(2))
unique.example(i64[2, 5])
unique.example(i64[2, 5].below(2), return_index=True, return_counts=True, axis=1)
