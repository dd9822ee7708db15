"""Policies for reads outside of a tensor: forbid, wrap, clamp or pad.

A policy is chosen where an access or a projection is created. Regions and values follow from it:
`wrap` continues at the other end, `clamp` repeats the element at the border, and `pad` reads no
element: such a point has a fill value, or contributes nothing to a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.errors import Diagnostic, StructInfoError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.lazy import lazy_module
from structir.projections import scalar_expr
from structir.projections.boxes import NOTHING, Box, Region, region_of
from structir.projections.maps import Projection
from structir.projections.position_sets import PositionSet
from structir.projections.spec import AccessIndex

np = lazy_module("numpy")

FORBID, WRAP, CLAMP, PAD = "forbid", "wrap", "clamp", "pad"
POLICIES = (FORBID, WRAP, CLAMP, PAD)
CODE = "E0662"


def check_policy(policy: str) -> None:
    """Raises StructInfoError for an unknown policy."""
    if policy not in POLICIES:
        message = f"out_of_bounds: expected one of {', '.join(POLICIES)}, found {policy!r}"
        raise StructInfoError(Diagnostic(message, hint='`out_of_bounds="clamp"`', code=CODE))


def bounded_index(entry: AccessIndex, policy: str, name: str = "the tensor") -> AccessIndex:
    """Returns an index under a policy.

    Raises StructInfoError under `forbid`, for an index that is not provably in range.
    """
    if entry.inside and entry.data is None:
        return entry
    if policy == FORBID:
        shown = entry.index if isinstance(entry.index, int) else str(entry.index)
        text = f"expected indices from 0 to {dims.text(entry.size - 1)}, found {shown}"
        message = f"{name}: reads out of bounds are forbidden: {text}"
        hint = 'choose a policy: `out_of_bounds={...: "wrap"}`, "clamp" or "pad"'
        raise StructInfoError(Diagnostic(message, hint=hint, code=CODE))
    if policy == PAD:
        return entry
    if entry.data is not None:
        index: Any = _bounded_scalar(entry.data, entry.size, policy)
    else:
        index = _bounded_dim(entry.dim, entry.size, policy)
    return attrs.evolve(entry, index=index, inside=entry.data is None)


def _bounded_dim(index: Dim, size: Dim, policy: str) -> Dim:
    if policy == WRAP:
        return dims.floormod(index, size)
    return dims.dim_max(dims.dim_min(index, size - 1), 0)


def _bounded_scalar(index: scalar_expr.ScalarExpr, size: Dim, policy: str) -> Any:
    if policy == WRAP:
        return scalar_expr.mod(index, size)
    return scalar_expr.max(scalar_expr.min(index, size - 1), 0)


# Projections to boxes


def positions(
    projection: Projection, start: Sequence[int], stop: Sequence[int]
) -> list[PositionSet]:
    """Returns the positions along each axis that a block reads, which may be out of bounds."""
    axes: list[PositionSet] = []
    for row, offset, width in zip(
        projection.matrix, projection.offset, projection.shape, strict=True
    ):
        numbers = [_number(dim) for dim in (offset, width, *row)]
        reach = PositionSet(numbers[0], numbers[0] + numbers[1])
        for factor, first, end in zip(numbers[2:], start, stop, strict=True):
            reach = reach.plus(PositionSet(first, end).times(factor))
        axes.append(reach)
    return axes


def _number(dim: Dim) -> int:
    if isinstance(dim, int):
        return dim
    message = f"expected a projection at concrete sizes, found {dims.text(dim)}"
    raise StructInfoError(Diagnostic(message, hint="substitute the symbolic dims", code=CODE))


def region_of_block(
    projection: Projection, start: Sequence[int], stop: Sequence[int], shape: Sequence[int]
) -> Region:
    """Returns the elements of a tensor of this shape that a block of positions reads.

    Raises StructInfoError for a read out of bounds under `forbid`.
    """
    axes: list[PositionSet] = []
    for axis, (reach, size) in enumerate(
        zip(positions(projection, start, stop), shape, strict=True)
    ):
        axes.append(_inside(reach, size, projection.out_of_bounds, axis))
    if not all(axes):
        return NOTHING
    columns = range(projection.columns)
    moving = [k for k in columns if stop[k] - start[k] > 1]
    uses = [k for k in moving if sum([row[k] != 0 for row in projection.matrix]) > 1]
    return region_of([Box(tuple(axes), not uses and all(axis.exact for axis in axes))])


def _inside(reach: PositionSet, size: int, policy: str, axis: int) -> PositionSet:
    """Returns the positions of an axis that are read."""
    if not reach or (reach.start >= 0 and reach.stop <= size):
        return reach
    if policy == FORBID:
        message = f"axis {axis}: reads out of bounds are forbidden: expected positions from 0 to "
        message += f"{size - 1}, found {reach.start} to {reach.stop - 1}"
        hint = 'choose a policy: `out_of_bounds="wrap"`, "clamp" or "pad"'
        raise StructInfoError(Diagnostic(message, hint=hint, code=CODE))
    inside = reach.clipped(0, size)
    if policy == WRAP:
        return reach.modulo(size)
    if policy == PAD or size == 0:
        return inside
    if reach.start < 0:
        inside = inside.joined(PositionSet(0, 1))
    return inside.joined(PositionSet(size - 1, size)) if reach.stop > size else inside


def values_at(array: Any, projection: Projection, position: Sequence[int], fill: float = 0) -> Any:
    """Returns the elements that one position reads, as an array; `fill` replaces absent ones."""
    stop = [p + 1 for p in position]
    reaches = positions(projection, position, stop)
    indices = [np.arange(r.start, r.stop) for r in reaches]
    for axis, (reach, size) in enumerate(zip(reaches, array.shape, strict=True)):
        _inside(reach, size, projection.out_of_bounds, axis)
    if projection.out_of_bounds == WRAP:
        return array[np.ix_(*[i % n for i, n in zip(indices, array.shape, strict=True)])]
    clipped = [np.clip(i, 0, n - 1) for i, n in zip(indices, array.shape, strict=True)]
    box = array[np.ix_(*clipped)]
    if projection.out_of_bounds != PAD:
        return box
    outside = [(i < 0) | (i >= n) for i, n in zip(indices, array.shape, strict=True)]
    mask = np.zeros(box.shape, bool)
    for axis, each in enumerate(outside):
        mask |= each.reshape([-1 if k == axis else 1 for k in range(box.ndim)])
    return np.where(mask, np.asarray(fill, array.dtype), box)
