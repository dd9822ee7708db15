"""The schedule of a copy with a border: along the last axis the part that exists, and the fill
value around it."""

from __future__ import annotations

from structir.backend.cpu.panels import lanes_of
from structir.backend.cpu.products import has_own_products
from structir.backend.loops.access import address_of
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Entry, Load, Number
from structir.backend.loops.group import Group
from structir.backend.loops.scalar_text import store_text
from structir.backend.loops.simplify import simplified
from structir.backend.loops.stage import Guard, Stage
from structir.backend.loops.writer import SINGLE, KernelText, LoopScope, Writer, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym


def padding_kernel(group: Group) -> KernelText:
    """Returns the source of one copy with a border."""
    return PaddingSchedule(group.stages[0]).text()


class PaddingSchedule:
    """Writes the kernel of a copy."""

    def __init__(self, stage: Stage, writer: Writer | None = None) -> None:
        self.stage = stage
        self.writer = writer or Writer(stage.axes)
        if writer is None:
            names = [f"i{k}" for k in range(len(stage.parallel))]
            self.writer.names.update(zip(stage.parallel, names, strict=True))
        self.names = [self.writer.names[axis] or "" for axis in stage.parallel]
        self.last: Sym | None = stage.parallel[-1] if stage.parallel else None

    def text(self) -> KernelText:
        """Returns the source of the kernel; the first axis is the range."""
        stage, origins = self.stage, (self.stage.origin,) if self.stage.origin else ()
        lines = self._line()
        outer = list(zip(self.names, stage.parallel, strict=True))[:-1]
        for name, axis in reversed(outer[1:]):
            lines = self._loop(name, "0", self.writer.size(stage.extents[axis]), lines)
        if not outer:
            return self.writer.finish([SINGLE, *indented(lines)], 1, origins)
        lines = self._loop(outer[0][0], "lo", "hi", lines)
        return self.writer.finish(lines, stage.extents[outer[0][1]], origins)

    def plane(self, around: set[str]) -> list[str]:
        """Returns the lines of one plane, inside of loops with these names."""
        lines = self._line()
        for name, axis in reversed(list(zip(self.names, self.stage.parallel, strict=True))[:-1]):
            if name not in around:
                lines = self._loop(name, "0", self.writer.size(self.stage.extents[axis]), lines)
        return lines

    def _loop(self, name: str, low: str, high: str, lines: list[str]) -> list[str]:
        return [f"for {name} in range({low}, {high}):", *indented(lines)]

    def _line(self) -> list[str]:
        """Writes one line along the last axis."""
        stage = self.stage
        extent = self.writer.size(stage.extents[self.last]) if self.last is not None else "1"
        bounds = [g for g in stage.guards if self.last in dims.syms(g.value)]
        tests = [g for g in stage.guards if g not in bounds]
        inside = self._copied(extent, bounds)
        if not tests:
            return inside
        condition = " and ".join(f"{self.writer.index_text(g.value)} >= 0" for g in tests)
        outside = self._filled("0", extent)
        return [f"if {condition}:", *indented(inside), "else:", *indented(outside)]

    def _copied(self, extent: str, bounds: list[Guard]) -> list[str]:
        if not bounds:
            return self._values("0", extent)
        lows, highs = ["0"], [extent]
        for guard in bounds:
            low, text = self._cut(guard)
            (lows if low else highs).append(text)
        lines = [f"low = min(max({', '.join(lows)}), {extent})" if lows[1:] else "low = 0"]
        lines.append(
            f"high = max(low, min({', '.join(highs)}))" if highs[1:] else f"high = {extent}"
        )
        lines += self._filled("0", "low")
        return [*lines, *self._values("low", "high"), *self._filled("high", extent)]

    def _cut(self, guard: Guard) -> tuple[bool, str]:
        """Returns a guard as a bound along the last axis: whether it is a lower one, and its
        source."""
        assert self.last is not None
        found = dims.linear(guard.value, self.last)
        assert found is not None and isinstance(found[0], int)
        step, rest = found[0], found[1]
        if step > 0:
            return True, self.writer.index_text(dims.ceildiv(-rest, step))
        end: Dim = dims.floordiv(rest, -step) + 1
        return False, self.writer.index_text(end)

    def _scopes(self) -> list[LoopScope]:
        inner = frozenset(self.stage.parallel)
        outer = inner - {self.last} if self.last is not None else inner
        return [LoopScope(outer), LoopScope(inner)]

    def _values(self, low: str, high: str) -> list[str]:
        scopes, body = self._scopes(), simplified(self.stage.body)
        if isinstance(body, Load) and self._is_run(body):
            places = [(self.stage.out, self.stage.write), (body.buffer, body.entries)]
            to, source = [self._run_from(low, *place, scopes) for place in places]
            lanes = lanes_of(self.stage.out.dtype)
            return [*scopes[0].lines, f"copy_run({to}, {source}, {high} - {low}, {lanes})"]
        value = self.writer.value(body, scopes)
        self.writer.store(self.stage.out, self.stage.write, value, scopes)
        return self._along(low, high, scopes)

    def _is_run(self, body: Load) -> bool:
        """Whether reads and writes are contiguous along the last axis."""
        out, axes = self.stage.out, self.stage.axes
        if self.last is None or body.buffer.dtype != out.dtype or not has_own_products(out.dtype):
            return False
        accesses = [(out, self.stage.write), (body.buffer, body.entries)]
        addresses = [address_of(buffer, entries, axes) for buffer, entries in accesses]
        plain = not any(a.data or a.pinned(axes) for a in addresses)
        return plain and all(a.coefficient(self.last) == 1 for a in addresses)

    def _run_from(
        self, low: str, buffer: Buffer, entries: tuple[Entry, ...], scopes: list[LoopScope]
    ) -> str:
        """Returns the pointer to the first element of a run."""
        assert self.last is not None
        held, self.writer.names[self.last] = self.writer.names[self.last], low
        pointer, index = self.writer.place(buffer, entries, scopes)[:-1].split("[", 1)
        self.writer.names[self.last] = held
        return f"offset_by({pointer}, {index})"

    def _filled(self, low: str, high: str) -> list[str]:
        scopes, otherwise = self._scopes(), self.stage.otherwise
        assert isinstance(otherwise, Number)
        value = store_text(self.stage.out.dtype, self.writer.value(otherwise, scopes))
        place = self.writer.place(self.stage.out, self.stage.write, scopes)
        scopes[-1].lines.append(f"{place} = {value}")
        return self._along(low, high, scopes)

    def _along(self, low: str, high: str, scopes: list[LoopScope]) -> list[str]:
        name = self.names[-1] if self.names else "point"
        return [*scopes[0].lines, *self._loop(name, low, high, scopes[-1].lines)]
