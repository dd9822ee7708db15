"""Scans: running sums and products along an axis."""

from __future__ import annotations

from structir.ops.attributes import Axis, DType
from structir.ops.define import op
from structir.ops.examples import f32
from structir.ops.given import Given, Written
from structir.ops.letters import letters, written
from structir.projections.point import Point


def scanned(given: Given) -> Written:
    """A reduction over a triangle: element `j` counts for result `i` if it does not come after
    it."""
    order = "<" if given["exclusive"] else "<="
    if given["axis"] is None:
        line = "x[*s] -> out[i] @ dtype or T"
        return Written(line, "i == flat(*s)", f"flat(*s) {order} i")
    rank = given.rank("x")
    if rank is None:
        return Written("x[*s] -> out[*s] @ dtype or T")
    read, made = letters(rank), letters(rank)
    axis = given.axis("axis", rank)
    read[axis], made[axis] = "j", "i"
    line = f"{written('x', read)} -> {written('out', made)} @ dtype or T"
    return Written(line, "i == j", f"j {order} i")


@op(scanned, reduce="sum")
def cumsum(
    x: Point, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> Point:
    """The sum of the elements up to each one, along an axis or in row-major order."""
    return x


@op(scanned, reduce="prod")
def cumprod(
    x: Point, axis: Axis | None = None, dtype: DType | None = None, exclusive: bool = False
) -> Point:
    """The product of the elements up to each one, along an axis or in row-major order."""
    return x


cumsum.example(f32[3, 4], axis=1)
cumprod.example(f32[3, 4], exclusive=True)
