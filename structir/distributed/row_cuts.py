"""Cuts results between rows of ragged tensors, at positions that balance their elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from structir.ir.dims import Dim
from structir.lazy import lazy_module
from structir.projections.program import CallOrigin, Program, info_of

np = lazy_module("numpy")
Array = Any
Cuts = dict[Dim, tuple[int, ...]]  # positions along axes of a dim, from 0 to its size


def row_cuts(program: Program, dim: Dim, parts: int) -> Cuts:
    """Returns where the parts of an axis of a dim begin and end, and the same for the other axes
    with the rows or the values of the same rows.

    Returns no cuts for axes without known rows, and where a part would be empty."""
    partitions = list(dict.fromkeys(_partitions(program)))
    rows = next((rows for rows, total, _ in partitions if dim in (rows, total)), None)
    related = {total: offsets for own, total, offsets in partitions if own == rows}
    if rows is None or parts == 1:
        return {}
    bounds = [np.asarray(offsets) for offsets in related.values()]
    cuts = _balanced(sum(bounds), parts)
    by_dim = {total: own[cuts] for total, own in zip(related, bounds, strict=True)}
    if dim != rows and dim in by_dim and (np.diff(by_dim[dim]) == 0).any():
        return {}
    return {each: tuple(positions.tolist()) for each, positions in {**by_dim, rows: cuts}.items()}


def _balanced(ends: Array, parts: int) -> Array:
    """Returns the rows at which parts with about equal numbers of elements begin, and the number of
    rows; each part has a row if there are as many."""
    count = len(ends) - 1
    wanted = int(ends[-1]) * np.arange(1, parts) / parts
    after = np.searchsorted(ends, wanted)
    before = np.maximum(after - 1, 0)
    nearer = np.where(wanted - ends[before] < ends[after] - wanted, before, after)
    steps = np.arange(1, parts)
    above = np.maximum.accumulate(nearer - steps) + steps  # increasing
    return np.concatenate(
        [
            [0],
            np.clip(above, np.minimum(steps, count), np.maximum(count - parts + steps, 0)),
            [count],
        ]
    )


def _partitions(program: Program) -> Iterator[tuple[Dim, Dim, tuple[int, ...]]]:
    """Yields the dim of rows, the dim of their values, and the offsets, for all known rows."""
    for step in program.steps:
        origin = step.origin
        if isinstance(origin, CallOrigin) and origin.rows is not None:
            dependency: Any = step.dependency
            for tensor, starts in origin.rows.values.items():
                key = step.inputs[tensor] if tensor >= 0 else step.outputs[0]
                sizes: Any = info_of(key).dims, info_of(step.inputs[starts]).dims
                yield sizes[1][0], sizes[0][0], tuple(dependency.offsets(tensor).tolist())
