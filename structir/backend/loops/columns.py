"""The schedule of a reduction along slow axes: a block of totals in scratch, walked once per
term."""

from __future__ import annotations

from math import prod

from structir.backend.loops.access import address_of, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.compose import value_at
from structir.backend.loops.expression import (
    Expression,
    Load,
    load,
    rebuilt,
)
from structir.backend.loops.group import Group
from structir.backend.loops.rounding import are_skipped, stored
from structir.backend.loops.rows import extents_of
from structir.backend.loops.scalar_text import accumulation_text, number_text, rounded_text
from structir.backend.loops.simplify import simplified
from structir.backend.loops.writer import KernelText, LoopScope, Writer, indented, loops
from structir.ir.dims import Dim, Sym
from structir.ir.kernel import computed_in
from structir.projections.monoid import MONOIDS

BLOCK = 4096  # totals at once: they and the streams beside them stay in the first cache
UNROLLED = 4  # terms taken together, so that totals are loaded and stored a quarter as often
STREAMS_FROM = 400_000  # elements from which narrow rows come from memory and want one stream


def column_kernel(group: Group) -> KernelText:
    """The text of a group around a reduction along slow axes."""
    return ColumnSchedule(group).text()


class ColumnSchedule:
    """A column group on its way to text."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.center = next(s for s in group.stages if s.reduce)
        self.makers = {s.out: s for s in group.stages if s.direct and s is not self.center}
        self.extents = extents_of(group)
        axes = self.center.axes
        addresses = [
            address_of(r.buffer, r.entries, axes)
            for s in group.stages
            for r in s.loads
            if r.buffer not in self.makers and r.buffer is not self.center.out
        ]
        addresses += [address_of(s.out, s.write, axes) for s in group.stages if s.out in group.kept]
        pinned = frozenset().union(*(s.pinned for s in group.stages))
        joined = joined_axes(self.center.parallel, self.extents, addresses, pinned)
        self.rows, self.vector = joined[:-1], joined[-1]
        self.terms = joined_axes(self.center.reduce, self.extents, addresses, pinned)
        row_axes = frozenset(a for g in self.rows for a in g)
        self.outer = row_axes | frozenset(self.center.reduce)
        self.writer = Writer(axes, row_axes)
        self.dtype = computed_in(self.center.out.dtype)
        self.totals_name = self.columns = self.total = ""

    def extent(self, group: tuple[Sym, ...]) -> Dim:
        """The number of points along joined axes."""
        return prod(self.extents[a] for a in group)

    def text(self) -> KernelText:
        """The kernel's text."""
        totals = Buffer((BLOCK,), self.dtype, "scratch")
        self.writer.scratch.append(totals)
        self.totals_name = self.writer.pointer(totals)
        self.name_axes()
        vector = self.extent(self.vector)
        width = self.writer.size(vector)
        if self.rows and isinstance(vector, int) and vector <= BLOCK:
            self.columns, self.total = f"range({vector})", f"{self.totals_name}[j]"
        else:
            self.columns, self.total = "range(j0, j1)", f"{self.totals_name}[j - j0]"
        block = [*self._start(), *self._accumulation(width), *self._results()]
        if not self.rows:
            head = [f"for j0 in range(lo, hi, {BLOCK}):", f"    j1 = min(j0 + {BLOCK}, hi)"]
            lines = [*head, *indented(block)]
            return self.writer.finish(lines, self.extent(self.vector), self.group.origins)
        sizes = [self.writer.size(self.extent(g)) for g in self.rows[1:]]
        lines = self.writer.decoded(self.rows, ["", *sizes], "r")
        if "j0" in self.columns:
            lines += [f"for j0 in range(0, {width}, {BLOCK}):"]
            block = indented([f"j1 = min(j0 + {BLOCK}, {width})", *block])
        lines += block
        whole = prod(self.extent(g) for g in self.rows)
        return self.writer.finish(
            ["for r in range(lo, hi):", *indented(lines)], whole, self.group.origins
        )

    def name_axes(self) -> None:
        """Rows, the axis that is walked element by element, and the terms."""
        names = [f"r{i}" for i in range(len(self.rows))] if len(self.rows) > 1 else ["r"]
        self.writer.name_axes(self.rows, names[: len(self.rows)])
        self.writer.name_axes([self.vector], ["j"])
        self.writer.name_axes(self.terms, [f"u{i}" for i in range(len(self.terms))])

    def _start(self) -> list[str]:
        identity = MONOIDS[self.center.monoid or ""].identity(self.dtype)
        value = number_text(identity, self.dtype)
        stored = f"uint8({value})" if self.dtype == "bool" else value
        return [f"for j in {self.columns}:", f"    {self.total} = {stored}"]

    def _accumulation(self, width: str) -> list[str]:
        """All terms added to the totals, the innermost reduced axis several at a time."""
        names = [f"u{i}" for i in range(len(self.terms))]
        sizes = [self.writer.size(self.extent(g)) for g in self.terms]
        last, size = names[-1], sizes[-1]
        count = self.writer.size(self.extent((*self.vector, *self.center.reduce)))
        together = f"{size} // {UNROLLED} * {UNROLLED}"
        fits = f"{count} < {STREAMS_FROM} or {width} > {BLOCK}"
        lines = [f"even = {together} if {fits} else 0"]
        lines += [f"for {last} in range(0, even, {UNROLLED}):", *indented(self._terms(UNROLLED))]
        lines += [f"for {last} in range(even, {size}):", *indented(self._terms(1))]
        return loops(names[:-1], sizes[:-1], lines)

    def _terms(self, count: int) -> list[str]:
        outer, lines = LoopScope(self.outer), list[str]()
        everything = self.outer | set(self.vector)
        axis, name = self.terms[-1][-1], f"u{len(self.terms) - 1}"
        body = simplified(self.written_out(self.center.body))
        values = []
        for step in range(count):
            self.writer.names[axis] = f"({name} + {step})" if step else name
            outer.made.clear()
            inner = LoopScope(everything, lines)
            values.append(self.writer.value(body, [outer, inner]))
        self.writer.names[axis] = name
        monoid = self.center.monoid or ""
        sum_name = values[0]
        for value in values[1:]:
            following = self.writer.fresh()
            lines.append(f"{following} = {accumulation_text(monoid, self.dtype, sum_name, value)}")
            sum_name = following
        before = self.writer.fresh()  # a name for each loop, which LLVM then sees to be its own
        lines.append(f"{before} = {self.total}" + (" != 0" if self.dtype == "bool" else ""))
        combined = accumulation_text(monoid, self.dtype, before, sum_name)
        stored = f"uint8({combined})" if self.dtype == "bool" else combined
        lines.append(f"{self.total} = {stored}")
        return [*outer.lines, f"for j in {self.columns}:", *indented(lines)]

    def _results(self) -> list[str]:
        """What is stored from the totals: the reduction itself, and maps over it."""
        row_axes = frozenset(a for g in self.rows for a in g)
        outer = LoopScope(row_axes)
        inner = LoopScope(row_axes | set(self.vector))
        name = "total"
        value = f"{self.total} != 0" if self.dtype == "bool" else self.total
        if self.group.kept != {self.center.out}:  # other ops read it
            value = value if are_skipped() else rounded_text(self.center.out.dtype, value)
        inner.lines.append(f"{name} = {value}")
        own = load(self.center.out, self.center.write)
        inner.made[own] = name
        self.writer.local.add(self.center.out)
        for stage in self.group.stages:
            if stage.out not in self.group.kept:
                continue
            body: Expression = own if stage is self.center else self.written_out(stage.body)
            body = stored(simplified(body), stage.out.dtype)
            value = self.writer.value(body, [outer, inner])
            self.writer.store(stage.out, stage.write, value, [outer, inner])
        return [*outer.lines, f"for j in {self.columns}:", *indented(inner.lines)]

    def written_out(self, root: Expression) -> Expression:
        """The expression with the group's maps put in place of their results."""

        def leaf(node: Expression) -> Expression:
            maker = self.makers.get(node.buffer) if isinstance(node, Load) else None
            if maker is None or not isinstance(node, Load):
                return node
            value = value_at(maker, node.entries)
            return node if value is None else rebuilt(value, leaf)

        return rebuilt(root, leaf)
