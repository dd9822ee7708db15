"""The schedule of short rows: rows are unrolled, and vectors are across rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.compose import value_at
from structir.backend.loops.expression import (
    Expression,
    Load,
    load,
    rebuilt,
    substituted,
    total,
)
from structir.backend.loops.group import Group
from structir.backend.loops.reciprocals import with_reciprocals
from structir.backend.loops.rounding import rounded, stored
from structir.backend.loops.scalar_text import accumulation_text, number_text
from structir.backend.loops.simplify import simplified
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import KernelText, LoopScope, Writer, indented
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import computed_in
from structir.projections.monoid import MONOIDS

MOST_ELEMENTS = 16  # of an unrolled row
MOST_VALUES = 256  # of all stages of a row together


def has_short_rows(group: Group) -> bool:
    """Whether all rows have few elements, known in number, and some stages reduce them."""
    counts = [_count(stage, group.rows) for stage in group.stages]
    if not group.rows or not any(s.reduce for s in group.stages):
        return False
    known = [c for c in counts if isinstance(c, int) and 1 <= c <= MOST_ELEMENTS]
    plain = all(s.direct and not s.pinned for s in group.stages)
    writers = {s.out for s in group.stages}
    few = len(known) == len(counts) == len(writers) and sum(known) <= MOST_VALUES
    return plain and few and all(_is_number(s.out.dtype) for s in group.stages)


def _is_number(dtype: str) -> bool:
    return is_float(dtype) or "int" in dtype


def _count(stage: Stage, rows: tuple[Sym, ...]) -> Dim:
    return prod(extent for axis, extent in stage.extents.items() if axis not in rows)


def short_row_kernel(group: Group) -> KernelText:
    """Returns the source of a group with short rows."""
    return ShortRowSchedule(group).text()


class ShortRowSchedule:
    """Writes the kernel of a group with short rows."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.makers = {s.out: s for s in group.stages}
        self.extents = {a: e for s in group.stages for a, e in s.extents.items()}
        self.axes = tuple(dict.fromkeys(a for s in group.stages for a in s.axes))
        self.writer = Writer(self.axes, group.rows)
        self.row = LoopScope(frozenset(group.rows))

    def text(self) -> KernelText:
        """Returns the source of the kernel."""
        lines = self.lines()
        whole = prod(self.extents[a] for a in self.group.rows)
        lines = ["for r in range(lo, hi):", *indented(lines)]
        return self.writer.finish(lines, whole, self.group.origins)

    def lines(self) -> list[str]:
        """Returns the lines of the row with index `r`."""
        groups = joined_axes(self.group.rows, self.extents, self._accesses())
        names = ["r"] if len(groups) == 1 else [f"r{i}" for i in range(len(groups))]
        self.writer.name_axes(groups, names)
        for stage in self.group.stages:
            if stage.reduce:
                self._put_together(stage)
            elif stage.out in self.group.kept:
                self._store(stage)
        sizes = [self.writer.size(prod(self.extents[a] for a in g)) for g in groups[1:]]
        return [*self.writer.decoded(groups, ["", *sizes], "r"), *self.row.lines]

    def _accesses(self) -> list[Address]:
        reads = {r for s in self.group.stages for r in s.loads if r.buffer not in self.makers}
        found = [address_of(r.buffer, r.entries, self.axes) for r in reads]
        kept = [s for s in self.group.stages if s.out in self.group.kept]
        return found + [address_of(s.out, s.write, self.axes) for s in kept]

    def _put_together(self, stage: Stage) -> None:
        """Writes a reduction, one term after another."""
        dtype, name = computed_in(stage.out.dtype), f"m{len(self.writer.totals)}"
        monoid, body = stage.monoid or "", self._written_out(stage)
        identity = number_text(MONOIDS[monoid].identity(dtype), dtype)
        before = identity
        for at in self._points(stage):
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
        body = stored(self._written_out(stage), stage.out.dtype)
        for at in self._points(stage):
            entries = tuple(
                [e if isinstance(e, Expression) else dims.substitute(e, at) for e in stage.write]
            )
            self.writer.store(stage.out, entries, self._value(body, at), [self.row])

    def _value(self, body: Expression, at: Mapping[Sym, Dim]) -> str:
        found = substituted(body, at)
        return self.writer.value(body if found is None else found, [self.row])

    def _points(self, stage: Stage) -> Iterator[dict[Sym, Dim]]:
        """Yields the elements of a row, in order."""
        yield from _points([a for a in stage.axes if a not in self.group.rows], self.extents)

    def _written_out(self, stage: Stage) -> Expression:
        """Returns the body over loads and the totals of the row."""
        rows, needed = frozenset(self.group.rows), self.writer.needed_axes
        body = simplified(self._resolved(stage.body))
        return with_reciprocals(
            body,
            lambda over, under: frozenset() < needed(under) <= rows and not needed(over) <= rows,
        )

    def _resolved(self, root: Expression) -> Expression:
        def leaf(node: Expression) -> Expression:
            if not isinstance(node, Load):
                return node
            maker = self.makers.get(node.buffer)
            if maker is None:
                entries = [
                    rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries
                ]
                return load(node.buffer, tuple(entries))
            if maker.reduce:
                return rounded(total(node.buffer), node.buffer.dtype)
            value = value_at(maker, node.entries)
            return node if value is None else self._resolved(value)

        return rebuilt(root, leaf)


def _points(axes: list[Sym], extents: Mapping[Sym, Dim]) -> Iterator[dict[Sym, Dim]]:
    if not axes:
        yield {}
        return
    extent = extents[axes[0]]
    for k in range(extent if isinstance(extent, int) else 0):
        for rest in _points(axes[1:], extents):
            yield {axes[0]: k, **rest}
