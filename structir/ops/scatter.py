"""Writes whose place is read from data: a copy of a tensor with some elements replaced or
combined."""

from __future__ import annotations

from typing import Literal

import attrs

from structir.ir.dims import Dim, ceildiv, dim_max, dim_min
from structir.ops.attributes import Axis, Operands, Size
from structir.ops.define import op
from structir.ops.examples import f32, i64
from structir.ops.given import Given, Written
from structir.ops.letters import letters, where, written
from structir.ops.sizes import UNKNOWN
from structir.projections.point import Point

Reduction = Literal["update", "add", "mul", "max", "min"]
MONOIDS = {"update": None, "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _combined(given: Given, line: str, conditions: str = "") -> Written:
    """A line whose meeting writes combine as the attribute says; the last one wins on update."""
    return Written(line, conditions, "", {"monoid": MONOIDS[given["reduction"]]})


def _only_sizes(given: Given) -> Written:
    """The line of a call whose ranks or number of coordinates are only known at run time."""
    line = "data[*s], indices[*t] @ I, updates[*u] -> y[*s]"
    return attrs.evolve(_combined(given, line), sizes=True)


def scattered(given: Given) -> Written:
    """Each update goes where its index says along the axis, to its own place along the others."""
    ranks = [given.rank(name) for name in ("data", "indices", "updates")]
    known = [rank for rank in ranks if rank is not None]
    if len(set(known)) > 1:
        given.reject("data, indices and updates must have equally many axes")
    if not known:
        return _only_sizes(given)
    axis, own = given.axis("axis", known[0]), letters(known[0])
    at = ["indices : n" + str(k) if k == axis else f"{i} : n{k}" for k, i in enumerate(own)]
    operands = [
        written("data", letters(known[0], "n")),
        written("indices", own) + " @ I",
        written("updates", own),
    ]
    return _combined(given, f"{', '.join(operands)} -> {written('y', at)}")


@op(scattered, base="data", reduce="monoid")
def scatter_elements(
    data: Point, indices: Point, updates: Point, axis: Axis = 0, reduction: Reduction = "update"
) -> Point:
    """The data with each update at the place that its index names along the axis."""
    return updates


def scattered_tuples(given: Given) -> Written:
    """The last axis of the indices holds one coordinate for each axis that is written."""
    rank, tuples = given.rank("data"), given.rank("indices")
    if tuples == 0:
        given.reject("indices must have at least 1 axis: the last holds the coordinates")
    sizes = given.dims("indices")
    count = sizes[-1] if sizes else None
    if rank is None or tuples is None or not isinstance(count, int):
        return _only_sizes(given)
    if count > rank:
        given.reject(f"{count} coordinates index a tensor of {rank} axes")
    outer, rest = letters(tuples - 1, "j"), letters(rank - count, "t")
    at = [f"indices[{', '.join([*outer, str(k)])}] : n{k}" for k in range(count)]
    at += [f"{e} : n{count + k}" for k, e in enumerate(rest)]
    operands = [
        written("data", letters(rank, "n")),
        written("indices", [*outer, str(count)]) + " @ I",
        written("updates", [*outer, *rest]),
    ]
    checks = [f"{e} == n{count + k}" for k, e in enumerate(rest)]
    return _combined(given, f"{', '.join(operands)} -> {written('y', at)}", where(checks))


@op(scattered_tuples, base="data", reduce="monoid", reads_sizes=True)
def scatter_nd(
    data: Point, indices: Point, updates: Point, reduction: Reduction = "update"
) -> Point:
    """The data with slices of the updates at tuples of indices."""
    return updates


def put(given: Given) -> Written:
    """One index tensor for each leading axis; the updates have the broadcast shape of the
    indices."""
    count, rank = len(given.info("indices")), given.rank("data")
    if not count:
        given.reject("there is no index")
    names = [f"indices_{k}" for k in range(count)]
    attributes = {"monoid": "sum" if given["accumulate"] else None}
    if rank is None or None in given.ranks("indices"):
        others = ", ".join([f"{name}[*t{k}] @ I" for k, name in enumerate(names)])
        line = f"data[*s], {others}, values[*u] -> y[*s]"
        return Written(line, "", "", attributes, sizes=True)
    if count > rank:
        given.reject(f"{count} indices are too many for a tensor of {rank} axes")
    rest = letters(rank - count, "t")
    at = [f"{name} : n{k}" for k, name in enumerate(names)]
    at += [f"{e} : n{count + k}" for k, e in enumerate(rest)]
    others = ", ".join([f"{name}[~b] @ I" for name in names])
    data, values = written("data", letters(rank, "n")), written("values", ["~b", *rest])
    checks = [f"{e} == n{count + k}" for k, e in enumerate(rest)]
    line = f"{data}, {others}, {values} -> {written('y', at)}"
    return Written(line, where(checks), "", attributes)


@op(put, base="data", reduce="monoid")
def index_put(data: Point, indices: Operands, values: Point, accumulate: bool = False) -> Point:
    """The data with values at the broadcast indices, replaced or added."""
    return values


def slice_written(given: Given) -> Written:
    """The slice `start : end : step` of one axis is the place of the new elements."""
    rank, start, end, step = given.rank("x"), given["start"], given["end"], given["step"]
    if rank is None:
        return Written("x[*s], src[*t] -> y[*s]", sizes=True)
    if isinstance(step, int) and step < 1:
        given.reject(f"the step must be positive, not {step}")
    axis, own, sizes = given.axis("axis", rank), letters(rank), given.dims("x")
    at = [f"start + step * {i} : n{k}" if k == axis else f"{i} : n{k}" for k, i in enumerate(own)]
    checks = [f"{i} == n{k}" for k, i in enumerate(own) if k != axis]
    attributes: dict[str, Dim] = {}
    if sizes is not None and UNKNOWN not in (start, end, step):
        size = sizes[axis]
        first, last = _from_the_front(start, size), dim_min(_from_the_front(end, size), size)
        attributes |= {"start": first, "count": dim_max(ceildiv(last - first, step), 0)}
        checks.append(f"{own[axis]} == count")
    data, new = written("x", letters(rank, "n")), written("src", own)
    return Written(f"{data}, {new} -> {written('y', at)}", where(checks), "", attributes)


def _from_the_front(bound: Dim, size: Dim) -> Dim:
    """A negative end of a slice counts from the back; none lies before the front."""
    return dim_max(bound + size, 0) if isinstance(bound, int) and bound < 0 else bound


@op(slice_written, base="x", reads_sizes=True)
def slice_scatter(
    x: Point, src: Point, start: Size, end: Size, step: Size = 1, axis: Axis = 0
) -> Point:
    """The tensor with a slice of one axis replaced."""
    return src


scatter_elements.example(f32[3, 4], i64[2, 4].below(3), f32[2, 4], axis=0, reduction="add")
scatter_nd.example(f32[3, 4], i64[2, 1].below(3), f32[2, 4])
index_put.example(f32[3, 4], [i64[2].below(3)], f32[2, 4], True)
slice_scatter.example(f32[6, 4], f32[3, 4], 0, 6, 2)
