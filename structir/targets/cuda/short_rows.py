"""The schedule of short rows: a thread computes a row, which is unrolled."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.group import Group
from structir.loops.kernel.short_rows import ShortRowGroup, written_at
from structir.loops.lower.rounding import stored
from structir.loops.program.expression import Expression, substituted
from structir.loops.program.stage import Stage
from structir.projections.monoid import MONOIDS
from structir.targets.cuda.device_text import DeviceText, device_text, over_threads
from structir.targets.cuda.scalar_text import accumulation_text, number_text
from structir.targets.cuda.writer import LoopScope, Writer


def short_row_kernel(group: Group) -> DeviceText:
    """Returns the source of a kernel over short rows, one thread each."""
    return _ThreadRows(group).device_text()


class _ThreadRows(ShortRowGroup):
    """Writes the kernel of a group with short rows."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self.writer = Writer(self.axes, group.rows)
        self.row = LoopScope(frozenset(group.rows))

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel."""
        writer = self.writer
        names = ["r"] if len(self.rows) == 1 else [f"r{i}" for i in range(len(self.rows))]
        writer.name_axes(self.rows, names)
        for stage in self.group.stages:
            if stage.reduce:
                self._reduce(stage)
            elif stage.out in self.group.kept:
                self._store(stage)
        sizes = [writer.size(prod(self.extents[a] for a in axes)) for axes in self.rows[1:]]
        lines = [*writer.decoded(self.rows, ["", *sizes], "r"), *self.row.lines]
        whole = prod(self.extents[axis] for axis in self.group.rows)
        lines = over_threads("r", writer.size(whole), lines)
        return device_text(writer, lines, whole, self.group.origins)

    def _reduce(self, stage: Stage) -> None:
        """Writes a reduction, one term after another."""
        dtype, name = computed_in(stage.out.dtype), f"m{len(self.writer.totals)}"
        monoid, body = stage.monoid or "", self.written_out(stage)
        identity = number_text(MONOIDS[monoid].identity(dtype), dtype)
        before = identity
        for at in self.points(stage):
            value = self._value(body, at)
            after = self.writer.fresh()
            text = accumulation_text(monoid, dtype, before, value)
            self.row.lines.append(f"{after} = {text if before != identity else value}")
            before = after
        self.row.lines.append(f"{name} = {before}")
        self.writer.totals[stage.out] = name
        if stage.out in self.group.kept:
            self.writer.store(stage.out, stage.write, name, [self.row])

    def _store(self, stage: Stage) -> None:
        body = stored(self.written_out(stage), stage.out.dtype)
        for at in self.points(stage):
            value = self._value(body, at)
            self.writer.store(stage.out, written_at(stage, at), value, [self.row])

    def _value(self, body: Expression, at: Mapping[Sym, Dim]) -> str:
        return self.writer.value(substituted(body, at) or body, [self.row])
