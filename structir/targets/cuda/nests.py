"""The general schedule, correct for every stage: parallel axes outside, reduced ones inside,
guards.

Guards that are affine in a loop's axis become loop bounds, others become tests. A scan makes one
pass along its axis. A scatter combines with the previous element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import computed_in
from structir.loops.fusion.simplify import simplified
from structir.loops.program.expression import axis_dim
from structir.loops.program.stage import Guard, Stage
from structir.projections.monoid import MONOIDS
from structir.targets.cuda.scalar_text import (
    accumulation_text,
    application_text,
    load_text,
    number_text,
    store_text,
)
from structir.targets.cuda.writer import INDENT, LoopScope, Writer, indented


class NestSchedule:
    """Writes the kernel of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.writer = Writer(stage.axes)
        self.dtype = computed_in(stage.out.dtype)
        self.monoid = stage.monoid or ""
        self.guards = list(stage.guards)
        self.tested: LoopScope | None = None  # if outer loops decide that the point exists

    def name_axes(self) -> None:
        """Gives every axis its own loop."""
        names = {axis: f"i{n}" for n, axis in enumerate(self.stage.parallel)}
        names |= {axis: f"u{n}" for n, axis in enumerate(self.stage.reduce)}
        self.writer.names.update(names)

    def _header(self, axis: Sym, known: set[Sym], ranged: Sym | None) -> tuple[str, str, str]:
        """Returns the bounds of a loop: its extent, or the range, restricted by the guards that it
        decides."""
        name = self.writer.names[axis] or ""
        extent = self.writer.size(self.stage.extents[axis])
        low, high = ("lo", "hi") if axis is ranged else ("0", extent)
        lows, highs = [low], [high]
        for guard in list(self.guards):
            cut = self._cut(guard, axis, known)
            if cut is not None:
                (lows if cut[0] else highs).append(cut[1])
                self.guards.remove(guard)
        low = lows[0] if len(lows) == 1 else f"max({', '.join(lows)})"
        high = highs[0] if len(highs) == 1 else f"min({', '.join(highs)})"
        return name, low, high

    def _cut(self, guard: Guard, axis: Sym, known: set[Sym]) -> tuple[bool, str] | None:
        """Returns a guard as a bound: whether it is a lower one, and its source."""
        own = dims.syms(guard.value) & set(self.stage.axes)
        if axis not in own or not own <= known | {axis}:
            return None
        linear = dims.linear(guard.value, axis)
        if linear is None or not isinstance(linear[0], int) or linear[0] == 0:
            return None
        step, rest = int(linear[0]), linear[1]
        if dims.syms(rest) & {axis}:
            return None
        if step > 0:  # step * axis + rest >= 0
            return True, self.writer.index_text(dims.ceildiv(-rest, step))
        return False, self.writer.index_text(dims.floordiv(rest, -step) + 1)

    def nest(
        self, parallel: Iterable[Sym], ranged: Sym | None = None, around: Iterable[Sym] = ()
    ) -> list[str]:
        """Returns loops over parallel axes, inside of others, around the value of a point and its
        store."""
        known = set(around)
        if self.stage.running is not None:
            target = self.stage.running.target
            others = [axis for axis in parallel if axis is not target]
            ranged = ranged if ranged in others else None
            return self._loops(others, known, ranged, self._scan)
        if not self.stage.reduce:
            return self._loops(parallel, known, ranged, self._map_point)
        inner = set(self.stage.reduce)
        outside = [g for g in self.guards if not dims.syms(g.value) & inner]
        held = outside
        self.guards = [g for g in self.guards if g not in outside]
        return self._loops(parallel, known, ranged, lambda known: self._reduction(known, held))

    def _loops(
        self,
        axes: Iterable[Sym],
        known: set[Sym],
        ranged: Sym | None,
        body: Callable[[set[Sym]], list[str]],
    ) -> list[str]:
        lines: list[str] = []
        depth, known = 0, set(known)
        if alone := self.tests(known):  # guards without axes
            lines.append(f"if {alone}:")
            depth = 1
        for axis in axes:
            name, low, high = self._header(axis, known, ranged)
            lines.append(INDENT * depth + f"for {name} in range({low}, {high}):")
            known.add(axis)
            depth += 1
            tests = self.tests(known)
            if tests:
                lines.append(INDENT * depth + f"if {tests}:")
                depth += 1
            if self._tells_existence(known):
                lines += indented(self._existence(known), depth)
                depth += 1
        return lines + indented(body(known), depth)

    def _tells_existence(self, known: set[Sym]) -> bool:
        """Whether these loops alone decide that points exist, independent of inner ones."""
        stage = self.stage
        if stage.exists is None or self.tested is not None or stage.reduce or stage.running:
            return False
        return self.writer.needed_axes(stage.exists) <= known < set(stage.parallel)

    def _existence(self, known: set[Sym]) -> list[str]:
        assert self.stage.exists is not None
        self.tested = LoopScope(frozenset(known))
        condition = self.writer.value(self.stage.exists, [self.tested])
        return [*self.tested.lines, f"if {condition}:"]

    def tests(self, known: set[Sym]) -> str:
        """Returns the guards that are decided here and are no bounds, as one condition."""
        axes = set(self.stage.axes)
        ready = [g for g in self.guards if dims.syms(g.value) & axes <= known]
        self.guards = [g for g in self.guards if g not in ready]
        return " and ".join(f"{self.writer.index_text(g.value)} >= 0" for g in ready)

    def _map_point(self, known: set[Sym]) -> list[str]:
        def point(scope: LoopScope) -> None:
            stage = self.stage
            value = self.writer.value(simplified(stage.body), [scope])
            if stage.monoid and not stage.unique:
                value = self._combined(value, scope)
            self.writer.store(stage.out, stage.write, value, [scope])

        return self._where_it_exists(known, point)

    def _where_it_exists(self, known: set[Sym], point: Callable[[LoopScope], None]) -> list[str]:
        """Returns the lines of a point, under its existence condition if that is loaded from
        data."""
        scope = LoopScope(frozenset(known))
        if self.tested is not None:
            scope.made.update(self.tested.made)
        if self.stage.exists is None or self.tested is not None:
            point(scope)
            return scope.lines
        condition = self.writer.value(self.stage.exists, [scope])
        inner = LoopScope(scope.axes)
        inner.made.update(scope.made)
        point(inner)
        return [*scope.lines, f"if {condition}:", *indented(inner.lines)]

    def _combined(self, value: str, scope: LoopScope) -> str:
        """Combines a value with the previous element."""
        place = self.writer.place(self.stage.out, self.stage.write, [scope])
        before, after = self.writer.fresh(), self.writer.fresh()
        scope.lines.append(f"{before} = {load_text(self.stage.out.dtype, place)}")
        text = accumulation_text(self.monoid, self.dtype, before, value)
        scope.lines.append(f"{after} = {text}")
        return after

    def _reduction(self, known: set[Sym], outside: list[Guard]) -> list[str]:
        """Writes one result: its reduction and its store."""
        lines = self._identity()
        test = " and ".join(f"{self.writer.index_text(g.value)} >= 0" for g in outside)
        terms = self._loops(list(self.stage.reduce), known, None, self._term)
        meets = not self.stage.unique  # without any term, the index does not exist either
        lines += [f"if {test}:", *indented(terms)] if test and not meets else terms
        scope = LoopScope(frozenset(known), lines)
        value = self._result(lines)
        if meets:
            value = self._combined(value, scope)
        self.store_total(value, scope)
        return [f"if {test}:", *indented(lines)] if test and meets else lines

    def store_total(self, value: str, scope: LoopScope) -> None:
        """Stores one result of a reduction."""
        self.writer.store(self.stage.out, self.stage.write, value, [scope])

    def _identity(self) -> list[str]:
        body = self.stage.body.dtype
        picks = self.monoid in ("argmax", "argmin")
        dtype = body if picks else self.dtype
        start = number_text(MONOIDS[self.monoid].identity(dtype), dtype)
        lines = [f"total = {start}"]
        if picks:
            lines.append("at = 0")
        if self.monoid == "mean":
            lines.append("count = 0")
        return lines

    def _term(self, known: set[Sym]) -> list[str]:
        return self._where_it_exists(known, self._add_term)

    def _add_term(self, scope: LoopScope) -> None:
        value = self.writer.value(simplified(self.stage.body), [scope])
        if self.monoid in ("argmax", "argmin"):
            sign = ">" if self.monoid == "argmax" else "<"
            fresh_nan = f"({value} != {value} and total == total)"
            scope.lines += [f"if {value} {sign} total or {fresh_nan}:"]
            scope.lines += [f"    total = {value}", f"    at = {self._running_number()}"]
            return
        text = accumulation_text(self.monoid, self.dtype, "total", value)
        scope.lines.append(f"total = {text}")
        if self.monoid == "mean":
            scope.lines.append("count += 1")

    def _running_number(self) -> str:
        number: Dim = 0
        for axis in self.stage.reduce:
            number = number * self.stage.extents[axis] + axis_dim(axis)
        return self.writer.index_text(number)

    def _result(self, lines: list[str]) -> str:
        if self.monoid in ("argmax", "argmin"):
            return f"{self.stage.out.dtype}(at)"
        if self.monoid == "mean":
            fn = "div" if is_float(self.dtype) else "quotient"
            terms = ["total", f"{self.dtype}(count)"]
            lines.append(f"total = {application_text(fn, self.dtype, self.dtype, terms)}")
        return "total"

    def _scan(self, known: set[Sym]) -> list[str]:
        """Writes a scan: one pass along its axis, which stores the total before or after each
        term."""
        stage, running = self.stage, self.stage.running
        assert running is not None
        self.writer.names[running.target] = self._running_number()
        scope = LoopScope(frozenset(known | {running.target, *stage.reduce}))
        value = self.writer.value(simplified(stage.body), [scope])
        add = f"total = {accumulation_text(self.monoid, self.dtype, 'total', value)}"
        place = self.writer.place(stage.out, stage.write, [scope])
        store = f"{place} = {store_text(stage.out.dtype, 'total')}"
        steps = [add, store] if running.op in ("le", "ge") else [store, add]
        lines = [*scope.lines, *steps]
        for axis in reversed(stage.reduce):
            extent = self.writer.size(stage.extents[axis])
            span = extent if running.op in ("le", "lt") else f"{extent} - 1, -1, -1"
            lines = [f"for {self.writer.names[axis]} in range({span}):", *indented(lines)]
        return [*self._identity(), *lines]
