"""Regions through whole programs: what results need of every value before them, and what values
affect after them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from structir.projections.boxes import NOTHING, Box, Region, whole

Shape = tuple[int, ...]
Regions = dict[Hashable, Region]


class Dependency(Protocol):
    """How the results of one step depend on its operands."""

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """What a region of a result needs of each operand."""
        ...

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """Which elements of each result depend on a region of an operand."""
        ...


@attrs.frozen
class OpaqueDependency:
    """Every result depends on every operand, or is taken to: only the shapes are known."""

    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """All of each operand."""
        return tuple([_loose(shape) if region else NOTHING for shape in self.operands])

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """All of each result."""
        return tuple([_loose(shape) if region else NOTHING for shape in self.results])


def _loose(shape: Shape) -> Region:
    return Region(tuple([Box(box.axes, False) for box in whole(shape).boxes]))


@attrs.frozen
class Passthrough:
    """One of several values handed on as it is: the result of a branch."""

    count: int = 1

    def required_regions(self, region: Region, result: int = 0) -> tuple[Region, ...]:
        """The region itself, of each."""
        return (region,) * self.count

    def affected_regions(self, region: Region, operand: int) -> tuple[Region, ...]:
        """The region itself."""
        return (region,)


@attrs.frozen(eq=False)
class RegionStep:
    """One op of a straight-line program. Values are known by keys, of any kind that hashes."""

    dependency: Dependency
    inputs: tuple[Hashable, ...]  # the value of each operand
    outputs: tuple[Hashable, ...]  # the value of each result
    origin: Any = None  # what the step was read from


def required_regions(steps: Sequence[RegionStep], wanted: Mapping[Hashable, Region]) -> Regions:
    """What regions of some values need of every value, the wanted ones among them.

    Each step is walked once, backwards, after everything that reads its results; regions stay
    inside their tensors at every stage.
    """
    found = dict(wanted)
    for step in reversed(steps):
        for result, output in enumerate(step.outputs):
            region = found.get(output)
            if region:
                _unite(found, step.inputs, step.dependency.required_regions(region, result))
    return found


def affected_regions(steps: Sequence[RegionStep], changed: Mapping[Hashable, Region]) -> Regions:
    """Which elements of every value depend on regions of some values, these among them."""
    found = dict(changed)
    for step in steps:
        for operand, value in enumerate(step.inputs):
            region = found.get(value)
            if region:
                _unite(found, step.outputs, step.dependency.affected_regions(region, operand))
    return found


def _unite(found: Regions, keys: Sequence[Hashable], regions: Sequence[Region]) -> None:
    for key, region in zip(keys, regions, strict=True):
        if region:
            before = found.get(key)
            found[key] = region if before is None else before | region
