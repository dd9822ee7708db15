"""Propagates regions through programs: required regions backward, affected regions forward."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from structir.projections.boxes import NOTHING, Box, Region, whole

Shape = tuple[int, ...]
Regions = dict[Hashable, Region]


class Dependency(Protocol):
    """The dependence of the results of one step on its operands."""

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region of each operand that a region of a result requires."""
        ...

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region of each result that depends on a region of an operand."""
        ...


@attrs.frozen
class OpaqueDependency:
    """A conservative dependence of every result on every operand; only the shapes are known."""

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns each operand as a whole."""
        return tuple([_loose(shape) if region else NOTHING for shape in self.operands])

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns each result as a whole."""
        return tuple([_loose(shape) if region else NOTHING for shape in self.results])


def _loose(shape: Shape) -> Region:
    return Region(tuple([Box(box.axes, False) for box in whole(shape).boxes]))


@attrs.frozen
class Passthrough:
    """One of several values passed through unchanged: the result of a conditional."""

    count: int = 1

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """Returns the region itself, for each operand."""
        return (region,) * self.count

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Returns the region itself."""
        return (region,)


@attrs.frozen(eq=False)
class RegionStep:
    """One op of a straight-line program. Values are identified by hashable keys."""

    dependency: Dependency
    inputs: tuple[Hashable, ...]  # the value of each operand
    outputs: tuple[Hashable, ...]  # the value of each result
    origin: Any = None  # the expression of the step


def required_regions(steps: Sequence[RegionStep], required: Mapping[Hashable, Region]) -> Regions:
    """Returns the region of every value that the `required` regions depend on, including them.

    Visits each step once, in reverse order, so that all users of its results precede it.
    """
    regions = dict(required)
    for step in reversed(steps):
        for result, output in enumerate(step.outputs):
            region = regions.get(output)
            if region:
                _unite(regions, step.inputs, step.dependency.required_regions(region, result))
    return regions


def affected_regions(steps: Sequence[RegionStep], changed: Mapping[Hashable, Region]) -> Regions:
    """Returns the region of every value that depends on the `changed` regions, including them."""
    regions = dict(changed)
    for step in steps:
        for operand, value in enumerate(step.inputs):
            region = regions.get(value)
            if region:
                _unite(regions, step.outputs, step.dependency.affected_regions(region, operand))
    return regions


def _unite(total: Regions, keys: Sequence[Hashable], regions: Sequence[Region]) -> None:
    for key, region in zip(keys, regions, strict=True):
        if region:
            before = total.get(key)
            total[key] = region if before is None else before | region
