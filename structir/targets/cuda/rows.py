"""The schedules of row groups: maps element by element, short rows by threads, others by blocks."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.group import Group
from structir.loops.kernel.short_rows import has_short_rows
from structir.loops.program.buffer import element_bytes
from structir.loops.program.stage import Stage
from structir.targets.cuda.device_text import (
    DeviceText,
    device_text,
    over_blocks,
    over_threads,
    within_block,
)
from structir.targets.cuda.row_schedule import RowSchedule
from structir.targets.cuda.short_rows import short_row_kernel
from structir.targets.cuda.writer import LoopScope, indented

WIDEST = 16  # bytes of one access of a thread
CHEAPER_THAN_MEMORY = 64  # additions: cheaper values are recomputed instead of stored
SYNC = "cuda.syncthreads()"


def any_row_kernel(group: Group) -> DeviceText:
    """Returns the source of a row group."""
    if has_short_rows(group):
        return short_row_kernel(group)
    schedule = BlockRowSchedule(group)
    return schedule.map_text() if schedule.flat else schedule.device_text()


class BlockRowSchedule(RowSchedule):
    """Writes the kernel of a row group: the threads of a block share the loops of a row."""

    width: Dim = 1
    recompute_below = CHEAPER_THAN_MEMORY

    def map_text(self) -> DeviceText:
        """Writes maps over common axes: each thread computes a point, or a run of points that it
        loads and stores in one access."""
        writer, axes = self.writer, (*self.rows, *self.last)
        groups = self.joined(axes)
        names = ["i"] if len(groups) == 1 else [f"i{k}" for k in range(len(groups))]
        writer.name_axes(groups, names)
        scope = LoopScope(frozenset(axes))
        self.write_roots([s for s in self.stages if s.out in self.group.kept], 0, [scope])
        lanes = self._lanes(groups)
        whole, runs = self.extent(axes), dims.ceildiv(self.extent(axes), lanes)
        lines = self._points(groups, names, scope.lines, lanes, whole)
        return attrs.evolve(device_text(writer, lines, runs, self.group.origins), apart=True)

    def _lanes(self, groups: list[tuple[Sym, ...]]) -> int:
        """Returns the number of neighbours per thread: as many as one access has, if they are
        contiguous and no run crosses the end of a line."""
        last = groups[-1][-1] if groups else None
        if (
            last is None
            or self.pinned
            or any(a.data or a.coefficient(last) not in (0, 1) for a in self.addresses)
        ):
            return 1
        buffers = [b for s in self.stages for b in (s.out, *[load.buffer for load in s.loads])]
        lanes = WIDEST // max(element_bytes(buffer.dtype) for buffer in buffers)
        line = self.extent(groups[-1])
        fits = len(groups) == 1 or (isinstance(line, int) and line % lanes == 0)
        return lanes if fits and not (isinstance(line, int) and line < lanes) else 1

    def _points(
        self,
        groups: list[tuple[Sym, ...]],
        names: list[str],
        body: list[str],
        lanes: int,
        whole: Dim,
    ) -> list[str]:
        """Returns loops over runs of points, and over the remaining points."""
        writer = self.writer
        sizes = [writer.size(self.extent(group)) for group in groups]
        count = writer.size(whole)
        if lanes == 1:
            return over_threads("i", count, [*writer.decoded(groups, sizes, "i"), *body])
        last, first = groups[-1], f"{names[-1]}_first"
        writer.names[last[-1]] = first
        head = [f"first = run * {lanes}", *writer.decoded(groups, sizes, "first")]
        writer.names[last[-1]] = names[-1]
        inner = [
            f"for lane in range({lanes}):",
            *indented([f"{names[-1]} = {first} + lane", *body]),
        ]
        lines = over_threads("run", f"{count} // {lanes}", [*head, *inner])
        if len(groups) > 1:
            return lines
        start = f"{count} // {lanes} * {lanes} + cuda.grid(1)"
        left = f"for i in range({start}, {count}, cuda.gridsize(1)):"
        return [*lines, left, *indented(body)]

    def device_text(self) -> DeviceText:
        """Returns the source of the kernel; without rows, everything is one row."""
        writer = self.writer
        groups = self.name_rows(self.joined(self.rows))
        sizes = [writer.size(self.extent(group)) for group in groups]
        lines = writer.decoded(groups, sizes, "r") if groups else []
        lines += self.row_lines()
        if writer.scratch:
            lines.append(SYNC)  # a barrier before the next row overwrites this one
        whole = prod(self.extent(group) for group in groups)
        lines = over_blocks("r", writer.size(whole), lines)
        text = device_text(writer, lines, whole, self.group.origins, self.width)
        return attrs.evolve(text, apart=not self.phases.kept)

    def loop_lines(
        self, groups: list[tuple[Sym, ...]], stages: list[Stage], body: list[str]
    ) -> list[str]:
        """Returns a loop that the threads of the block share, followed by reductions over the
        threads."""
        writer = self.writer
        sizes = [writer.size(self.extent(group)) for group in groups]
        whole = prod(self.extent(group) for group in groups)
        self.width = whole if self.width == 1 else self.width
        number = "j" if len(groups) == 1 else "lane"
        lines = [*writer.decoded(groups, sizes, number), *body]
        lines = within_block(number, writer.size(whole), lines)
        for stage in stages:
            if stage.reduce:
                name, dtype = writer.totals[stage.out], computed_in(stage.out.dtype)
                lines.append(f"{name} = block_{stage.monoid}_{dtype}({name})")
        stored = any(not stage.reduce for stage in stages)
        return [*lines, SYNC] if stored else lines

    def store_row(self, row: LoopScope) -> None:
        """Stores the single values of a row, by one thread."""
        first = LoopScope(row.axes)
        first.made.update(row.made)
        super().store_row(first)
        if first.lines:
            row.lines += ["if cuda.threadIdx.x == 0:", *indented(first.lines)]
