"""The schedule of a stage alone, or with maps of its result: independent points run on separate
threads."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Sym
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.program.access import split
from structir.loops.program.expression import Entry, Expression, load
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import DeviceText, device_text, over_threads
from structir.targets.cuda.epilogue import Results, results_of
from structir.targets.cuda.nests import NestSchedule
from structir.targets.cuda.scalar_text import rounded_text
from structir.targets.cuda.writer import LoopScope, indented


def point_kernel(group: Group) -> DeviceText:
    """Returns the source of one stage with the maps after it."""
    stage, *maps = sorted(group.stages, key=lambda s: not takes_maps(s))
    results = results_of(stage, [stage, *maps], group.kept) if maps else None
    return attrs.evolve(PointSchedule(stage, results).device_text(), origins=group.origins)


def takes_maps(stage: Stage) -> bool:
    """Whether a stage is a reduction at each point, which maps of its result can follow."""
    plain = stage.exists is None and stage.running is None and stage.routine is None
    plain = plain and not any(isinstance(entry, Expression) for entry in stage.write)
    return plain and bool(stage.reduce) and stage.unique and not stage.simple


class PointSchedule(NestSchedule):
    """Writes the kernel of a stage. Dependent points of a scan or a scatter stay on one thread."""

    def __init__(self, stage: Stage, results: Results | None = None) -> None:
        super().__init__(stage)
        self.results = results

    def store_total(self, value: str, scope: LoopScope) -> None:
        """Stores a result of a reduction and the maps of it."""
        if self.results is None:
            return super().store_total(value, scope)
        read = self.writer.fresh()
        scope.lines.append(f"{read} = {rounded_text(self.stage.out.dtype, value)}")
        scope.made[load(self.stage.out, self.stage.write)] = read
        for out, body in self.results:
            stored = self.writer.value(simplified(body), [scope])
            self.writer.store(out, self.stage.write, stored, [scope])
        return None

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        stage, writer = self.stage, self.writer
        self.name_axes()
        spread = self._spread()
        rest = [axis for axis in stage.parallel if axis not in spread]
        sizes = [writer.size(stage.extents[axis]) for axis in spread]
        lines = writer.decoded([(axis,) for axis in spread], sizes, "point")
        lines += self._inside(rest, set(spread))
        whole = prod(stage.extents[axis] for axis in spread)
        lines = over_threads("point", writer.size(whole), lines)
        return device_text(writer, lines, whole, stage.origins)

    def _spread(self) -> list[Sym]:
        """Returns the axes along which points are independent."""
        stage = self.stage
        if stage.running is not None:
            return [axis for axis in stage.parallel if axis is not stage.running.target]
        if stage.unique:
            return list(stage.parallel)
        own = {axis for entry in stage.write for axis in self._told_by(entry)}
        return [axis for axis in stage.parallel if axis in own]

    def _told_by(self, entry: Entry) -> list[Sym]:
        """Returns the axes that an index is injective in: it enumerates points in order, with or
        without gaps."""
        if isinstance(entry, Expression):
            return []
        steps, rest = split(entry, self.stage.axes)
        axes = [axis for axis in reversed(self.stage.axes) if axis in steps]
        if not axes or dims.syms(rest) & frozenset(self.stage.axes):
            return []
        expected = steps[axes[0]]
        for axis in axes:
            if steps[axis] != expected or axis in self.stage.reduce:
                return []
            expected = expected * self.stage.extents[axis]
        return axes if isinstance(steps[axes[0]], int) else []

    def _inside(self, rest: list[Sym], known: set[Sym]) -> list[str]:
        if self.stage.reduce and self.stage.running is None:
            return self.nest(rest, around=known)
        test = self.tests(known)
        lines = self.nest(rest, around=known)
        if test:
            lines = [f"if {test}:", *indented(lines)]
        return [*lines, *self._otherwise(known)] if test else lines

    def _otherwise(self, known: set[Sym]) -> list[str]:
        """Returns lines that store the value where a guard fails."""
        if self.stage.otherwise is None:
            return []
        scope = LoopScope(frozenset(known))
        value = self.writer.value(self.stage.otherwise, [scope])
        self.writer.store(self.stage.out, self.stage.write, value, [scope])
        return ["else:", *indented(scope.lines)]
