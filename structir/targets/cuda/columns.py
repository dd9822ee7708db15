"""The schedule of a reduction along slow axes: neighbouring threads compute neighbouring
columns."""

from __future__ import annotations

from math import prod

from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.kernel.columns import ColumnGroup
from structir.loops.program.expression import load
from structir.projections.monoid import MONOIDS
from structir.targets.cuda.device_text import DeviceText, device_text, over_threads
from structir.targets.cuda.scalar_text import accumulation_text, number_text, rounded_text
from structir.targets.cuda.writer import LoopScope, Writer, loops


def column_kernel(group: Group) -> DeviceText:
    """Returns the source of a group around a reduction along slow axes."""
    return ThreadColumnSchedule(group).device_text()


class ThreadColumnSchedule(ColumnGroup):
    """Writes the kernel of a column group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        row_axes = frozenset(a for g in self.rows for a in g)
        self.outer = row_axes | frozenset(self.center.reduce)
        self.writer = Writer(self.center.axes, row_axes)
        names = [f"r{i}" for i in range(len(self.rows))] if len(self.rows) > 1 else ["r"]
        self.writer.name_axes(self.rows, names[: len(self.rows)])
        self.writer.name_axes([self.vector], ["j"])
        self.writer.name_axes(self.terms, [f"u{i}" for i in range(len(self.terms))])

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        writer = self.writer
        groups = [*self.rows, self.vector]
        sizes = [writer.size(self.extent(group)) for group in groups]
        number = "j" if len(groups) == 1 else "point"
        lines = [*writer.decoded(groups, sizes, number), *self._total(), *self._stores()]
        whole = prod(self.extent(group) for group in groups)
        lines = over_threads(number, writer.size(whole), lines)
        return device_text(writer, lines, whole, self.group.origins)

    def _total(self) -> list[str]:
        """Returns lines that sum all terms of one column."""
        monoid = self.center.monoid or ""
        identity = number_text(MONOIDS[monoid].identity(self.dtype), self.dtype)
        scope = LoopScope(self.outer | set(self.vector))
        value = self.writer.value(simplified(self.inlined(self.center.body)), [scope])
        total = accumulation_text(monoid, self.dtype, "total", value)
        names = [self.writer.names[group[-1]] or "" for group in self.terms]
        sizes = [self.writer.size(self.extent(group)) for group in self.terms]
        return [f"total = {identity}", *loops(names, sizes, [*scope.lines, f"total = {total}"])]

    def _stores(self) -> list[str]:
        """Returns the stores that use the total: the reduction itself, and maps of it."""
        scope = LoopScope(frozenset([a for g in (*self.rows, self.vector) for a in g]))
        own = load(self.center.out, self.center.write)
        scope.made[own] = "total"
        scope.lines.append(f"total = {rounded_text(self.center.out.dtype, 'total')}")
        self.writer.local.add(self.center.out)
        for stage in self.group.stages:
            if stage.out in self.group.kept:
                body = own if stage is self.center else self.inlined(stage.body)
                value = self.writer.value(simplified(body), [scope])
                self.writer.store(stage.out, stage.write, value, [scope])
        return scope.lines
