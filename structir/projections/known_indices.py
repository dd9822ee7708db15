"""Reads at indices from tensors with known elements: a block requires the range of its indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.lazy import lazy_module
from structir.projections.boxes import Region, region
from structir.projections.regions import Dependence
from structir.projections.scalar_expr import OperandElement
from structir.projections.spec import IndexSpec

np = lazy_module("numpy")
Array = Any


@attrs.frozen
class KnownIndex:
    """An axis of an operand that is read at the elements of another operand only."""

    operand: int
    axis: int
    index_operand: int


@attrs.frozen(eq=False)
class KnownIndexDependency:
    """The dependence of a call, with the ranges of indices read from known elements."""

    general: Dependence
    indices: tuple[KnownIndex, ...]
    arrays: Mapping[int, Array]  # by operand

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region of each operand that a region of a result requires."""
        regions = list(self.general.required_regions(region, result))
        for index in self.indices:
            needed = regions[index.index_operand].bounds
            if needed is not None:
                block = tuple([slice(a, b) for a, b in zip(*needed, strict=True)])
                elements = self.arrays[index.index_operand][block]
                regions[index.operand] = _narrowed(regions[index.operand], index.axis, elements)
        return tuple(regions)

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region of each result that depends on a region of an operand."""
        return self.general.affected_regions(region, operand)


def _narrowed(whole: Region, axis: int, elements: Array) -> Region:
    """Returns the part of a region along an axis that has the positions among some elements."""
    bounds = whole.bounds
    if bounds is None:
        return whole
    start, stop = map(list, bounds)
    inside = elements[(elements >= start[axis]) & (elements < stop[axis])]
    if not inside.size:
        return Region()
    start[axis], stop[axis] = int(inside.min()), int(inside.max()) + 1
    return region(start, stop)


def with_known_indices(
    spec: IndexSpec, dependence: Dependence, arrays: Mapping[int, Array]
) -> Dependence | KnownIndexDependency:
    """Returns the dependence of a spec whose integer operands have some known elements."""
    indices = tuple(_known_indices(spec, arrays)) if arrays and len(spec.statements) == 1 else ()
    return KnownIndexDependency(dependence, indices, arrays) if indices else dependence


def _known_indices(spec: IndexSpec, arrays: Mapping[int, Array]) -> Iterator[KnownIndex]:
    (statement,) = spec.statements
    if statement.reduce:
        return
    operands = [read.operand for read in statement.reads]
    for read in statement.reads:
        for axis, entry in enumerate(read.entries):
            data = entry.data
            if isinstance(data, OperandElement) and operands.count(read.operand) == 1:
                index = statement.read(data.name)
                if index.operand in arrays and all([e.data is None for e in index.entries]):
                    yield KnownIndex(read.operand, axis, index.operand)
