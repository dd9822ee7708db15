"""The schedule of a row group: loops over rows, and within each row its phases as loops."""

from __future__ import annotations

from math import prod

from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.lower.rounding import rounded, stored
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.buffer import Buffer, may_be_large
from structir.loops.program.expression import Entry, Load, loads_of
from structir.loops.program.stage import Stage, extents_of
from structir.projections.monoid import MONOIDS
from structir.targets.cuda.phases import RECOMPUTE_BELOW, Phases
from structir.targets.cuda.scalar_text import accumulation_text, number_text
from structir.targets.cuda.writer import LoopScope, Writer, loops

LAST = 1 << 30  # the phase of the statements after all loops of a row


class RowSchedule:
    """Writes the kernel of a row group."""

    recompute_below: float = RECOMPUTE_BELOW

    def __init__(self, group: Group) -> None:
        self.stages, self.group = group.stages, group
        self.extents = extents_of(group.stages)
        axes = dict.fromkeys(axis for s in group.stages for axis in s.axes)
        self.flat = all(not s.reduce and s.parallel == group.rows for s in group.stages)
        self.pinned = frozenset().union(*(s.pinned for s in group.stages))
        self.addresses = self._addresses(tuple(axes))
        rows = group.rows
        self.last: tuple[Sym, ...] = ()
        joined = self.joined(rows) if self.flat else []
        if len(joined) > 1:
            rows, self.last = tuple(a for g in joined[:-1] for a in g), joined[-1]
        self.rows = rows
        self.writer = Writer(axes, rows)
        large = frozenset(filter(may_be_large, group.given))
        given = (group.stages, rows, self.extents, group.kept, large)
        self.phases = Phases(*given, self.recompute_below)
        self._declare_local()

    def _declare_local(self) -> None:
        self.writer.local |= {s.out for s in self.stages}
        for kept in self.phases.kept.values():
            self.writer.local.add(kept.place)
            if kept.of_stage is None:
                self.writer.scratch.append(kept.place)

    def _addresses(self, axes: tuple[Sym, ...]) -> list[Address]:
        """Returns all accesses to memory in which collapsed axes must agree."""
        written = {s.out for s in self.stages} - self.group.kept
        reads = {r for s in self.stages for r in s.loads if r.buffer not in written}
        addresses = [self._address(r.buffer, r.entries, axes) for r in reads]
        kept = [s for s in self.stages if s.out in self.group.kept]
        return addresses + [self._address(s.out, s.write, axes) for s in kept]

    def _address(
        self, buffer: Buffer, entries: tuple[Entry, ...], axes: tuple[Sym, ...]
    ) -> Address:
        return address_of(buffer, entries, axes)

    def joined(
        self, axes: tuple[Sym, ...], more: tuple[Address, ...] = ()
    ) -> list[tuple[Sym, ...]]:
        """Returns axes, collapsed where all accesses allow it."""
        return joined_axes(axes, self.extents, [*self.addresses, *more], self.pinned)

    def extent(self, group: tuple[Sym, ...]) -> Dim:
        """Returns the number of points along collapsed axes."""
        return prod(self.extents[a] for a in group)

    def name_rows(self, groups: list[tuple[Sym, ...]]) -> list[tuple[Sym, ...]]:
        """Names collapsed rows by one linear index; returns the same groups."""
        names = ["r"] if len(groups) == 1 else [f"r{i}" for i in range(len(groups))]
        self.writer.name_axes(groups, names)
        return groups

    def write_roots(self, roots: list[Stage], phase: int, scopes: list[LoopScope]) -> None:
        for stage in roots:
            self._write_root(stage, phase, scopes)

    def _write_root(self, stage: Stage, phase: int, scopes: list[LoopScope]) -> None:
        body = simplified(self.phases.resolved(stage.body, phase))
        if stage.out in self.phases.kept:  # a later loop reads the rounded value
            body = rounded(body, stage.out.dtype)
        elif not stage.reduce:
            body = stored(body, stage.out.dtype)
        value = self.writer.value(body, scopes)
        if stage.reduce:
            dtype = computed_in(stage.out.dtype)
            name = self.writer.totals[stage.out]
            text = accumulation_text(stage.monoid or "", dtype, name, value)
            scopes[-1].lines.append(f"{name} = {text}")
        elif stage.out in self.phases.kept:
            at = self.phases.kept_load(stage, self._own_load(stage))
            self.writer.store(at.buffer, at.entries, value, scopes)
        else:
            self.writer.store(stage.out, stage.write, value, scopes)

    def _own_load(self, stage: Stage) -> Load:
        return Load(stage.out, stage.write, computed_in(stage.out.dtype))

    def row_lines(self) -> list[str]:
        """Returns the lines of one row: its loops phase by phase, then the single values of the
        row."""
        row = LoopScope(frozenset(self.rows))
        for (phase, _), stages in sorted(self.loops().items(), key=lambda item: item[0][0]):
            self._write_loop(phase, stages, row)
        self.store_row(row)
        return row.lines

    def store_row(self, row: LoopScope) -> None:
        """Stores the single values of a row."""
        for stage in self.stages:
            if stage.out not in self.group.kept or (self.phases.inner[stage] and not stage.reduce):
                continue
            if stage.reduce:
                self.writer.store(stage.out, stage.write, self.writer.totals[stage.out], [row])
            else:
                body = simplified(self.phases.resolved(stage.body, LAST))
                body = stored(body, stage.out.dtype)
                self.writer.store(stage.out, stage.write, self.writer.value(body, [row]), [row])

    def loops(self) -> dict[tuple[int, frozenset[Sym]], list[Stage]]:
        """Returns the stages that loops must compute, by phase and inner space."""
        groups: dict[tuple[int, frozenset[Sym]], list[Stage]] = {}
        for stage in self.stages:
            inner = self.phases.inner[stage]
            wanted = stage.reduce or stage.out in self.group.kept or stage.out in self.phases.kept
            if inner and wanted:
                key = (self.phases.phase[stage], frozenset(inner))
                groups.setdefault(key, []).append(stage)
        return groups

    def _write_loop(self, phase: int, stages: list[Stage], row: LoopScope) -> None:
        order = max(stages, key=lambda s: len(s.parallel))
        kept = [s for s in stages if s.out in self.phases.kept]
        axes = tuple(self.writer.axes)
        places = [self.phases.kept_load(s, self._own_load(s)) for s in kept]
        more = [self._address(p.buffer, p.entries, axes) for p in places]
        more += self._kept_reads(axes) + self._written_out_reads(stages, phase, axes)
        groups = self.joined(self.phases.inner[order], tuple(more))
        names = [*(f"q{i}" for i in range(len(groups) - 1)), "j"]
        self.writer.name_axes(groups, names)
        for stage in stages:
            if stage.reduce:
                row_total = self._start_total(stage.out, stage.monoid or "")
                row.lines.append(row_total)
        inner = LoopScope(row.axes | set(self.phases.inner[order]))
        self.write_roots(stages, phase, [row, inner])
        row.lines += self.loop_lines(groups, stages, inner.lines)

    def loop_lines(
        self, groups: list[tuple[Sym, ...]], stages: list[Stage], body: list[str]
    ) -> list[str]:
        """Returns loops over collapsed inner axes, around the lines of stages."""
        names = [self.writer.names[group[-1]] or "" for group in groups]
        sizes = [self.writer.size(self.extent(g)) for g in groups]
        return loops(names, sizes, body)

    def _kept_reads(self, axes: tuple[Sym, ...]) -> list[Address]:
        """Returns the accesses to stored values, in which collapsed axes must agree, too."""
        lines = []
        for stage in self.stages:
            for read in stage.loads:
                if read.buffer in self.phases.kept:
                    at = self.phases.kept_load(self.phases.producers[read.buffer], read)
                    lines.append(self._address(at.buffer, at.entries, axes))
        return lines

    def _written_out_reads(
        self, stages: list[Stage], phase: int, axes: tuple[Sym, ...]
    ) -> list[Address]:
        """Returns the reads of stages without a stored value, perhaps at other points than their
        own."""
        bodies = [self.phases.resolved(stage.body, phase) for stage in stages]
        reads = dict.fromkeys(read for body in bodies for read in loads_of(body))
        return [self._address(read.buffer, read.entries, axes) for read in reads]

    def _start_total(self, buffer: Buffer, monoid: str) -> str:
        dtype = computed_in(buffer.dtype)
        name = self.writer.totals.setdefault(buffer, f"m{len(self.writer.totals)}")
        identity = MONOIDS[monoid].identity(dtype)
        return f"{name} = {number_text(identity, dtype)}"
