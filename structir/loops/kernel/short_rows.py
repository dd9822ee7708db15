"""The kernels of short rows: rows are unrolled, and vectors are across rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import Assign, KernelStatement, LoopVariable, Scalar
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.library_nodes import FlatNodeWriter
from structir.loops.lower.as_scalar import Values, accumulated, applied, stated
from structir.loops.lower.rounding import rounded, stored
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.expression import (
    Entry,
    Expression,
    Load,
    Total,
    load,
    rebuilt,
    substituted,
    symbols_of,
    total,
    walk,
)
from structir.loops.program.stage import Stage
from structir.loops.rewrite.reciprocals import with_reciprocals
from structir.loops.rewrite.view_inlining import value_at
from structir.projections.monoid import MONOIDS

Statements = list[KernelStatement]
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


class ShortRowGroup:
    """A group with short rows: its collapsed row axes, the elements of a row, and the values of its
    stages over loads and totals of the row."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.producers = {s.out: s for s in group.stages}
        self.extents = {a: e for s in group.stages for a, e in s.extents.items()}
        self.axes = tuple(dict.fromkeys(a for s in group.stages for a in s.axes))
        self.rows = joined_axes(group.rows, self.extents, self._accesses())

    def _accesses(self) -> list[Address]:
        reads = {r for s in self.group.stages for r in s.loads if r.buffer not in self.producers}
        addresses = [address_of(r.buffer, r.entries, self.axes) for r in reads]
        kept = [s for s in self.group.stages if s.out in self.group.kept]
        return addresses + [address_of(s.out, s.write, self.axes) for s in kept]

    def points(self, stage: Stage) -> Iterator[dict[Sym, Dim]]:
        """Yields the elements of a row, in order."""
        yield from _points([a for a in stage.axes if a not in self.group.rows], self.extents)

    def written_out(self, stage: Stage) -> Expression:
        """Returns the body over loads and the totals of the row."""
        rows = frozenset(self.group.rows)

        def is_wanted(over: Expression, under: Expression) -> bool:
            return frozenset() < self._axes_of(under) <= rows and not self._axes_of(over) <= rows

        return with_reciprocals(simplified(self._resolved(stage.body)), is_wanted)

    def _axes_of(self, value: Expression) -> frozenset[Sym]:
        """Returns the axes on which a value depends."""
        has_total = any(isinstance(node, Total) for node in walk(value))
        axes = symbols_of(value) & frozenset(self.axes)
        return axes | frozenset(self.group.rows if has_total else ())

    def _resolved(self, root: Expression) -> Expression:
        def leaf(node: Expression) -> Expression:
            if not isinstance(node, Load):
                return node
            producer = self.producers.get(node.buffer)
            if producer is None:
                entries = [
                    rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries
                ]
                return load(node.buffer, tuple(entries))
            if producer.reduce:
                return rounded(total(node.buffer), node.buffer.dtype)
            value = value_at(producer, node.entries)
            return node if value is None else self._resolved(value)

        return rebuilt(root, leaf)


def written_at(stage: Stage, at: Mapping[Sym, Dim]) -> tuple[Entry, ...]:
    """Returns the element that a stage writes at an element of a row."""
    return tuple([e if isinstance(e, Expression) else dims.substitute(e, at) for e in stage.write])


def short_row_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a group with short rows."""
    return _ShortRowWriter(group, name).kernel()


class _ShortRowWriter(FlatNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        self.short = ShortRowGroup(group)
        self.values: Values = {}  # of the row, so far
        self.flat_axes = self.short.axes
        self.collapsed = frozenset([axis for axes in self.short.rows for axis in axes[:-1]])

    def write_group(self, into: Statements) -> None:
        low, high = self.part(self.extent(self.group.rows), into)
        row, body = LoopVariable("r", "int64"), list[KernelStatement]()
        self.decode(row, self.short.rows, body)
        for stage in self.group.stages:
            self.stage = stage
            if stage.reduce:
                self._reduce(stage, body)
            elif stage.out in self.group.kept:
                root = stored(self.short.written_out(stage), stage.out.dtype)
                for at in self.short.points(stage):
                    self._store(stage, at, self._value_at(root, at, body), body)
        into.append(self.loop_over(row, low, high, body))

    def _reduce(self, stage: Stage, into: Statements) -> None:
        """Writes a reduction, one term after another."""
        combine, body = MONOIDS[stage.monoid or ""].combine, self.short.written_out(stage)
        result: Scalar | None = None
        for at in self.short.points(stage):
            term = self._value_at(body, at, into)
            value = term if result is None else accumulated(combine, result, term)
            result = self.scalars.local("m", value.dtype)
            into.append(Assign(result, stated(value)))
        assert result is not None
        self.scalars.totals[stage.out] = result
        if stage.out in self.group.kept:
            self._store(stage, {}, result, into)

    def _store(self, stage: Stage, at: Mapping[Sym, Dim], value: Scalar, into: Statements) -> None:
        array = self.fills[stage.out]
        element = self.element_at(array, stage.out, written_at(stage, at), into)
        if value.dtype != element.dtype:
            value = applied("cast", [value], element.dtype)
        into.append(Assign(element, value))

    def _value_at(self, body: Expression, at: Mapping[Sym, Dim], into: Statements) -> Scalar:
        return self.scalars.value(substituted(body, at) or body, into, self.values)


def _points(axes: list[Sym], extents: Mapping[Sym, Dim]) -> Iterator[dict[Sym, Dim]]:
    if not axes:
        yield {}
        return
    extent = extents[axes[0]]
    for k in range(extent if isinstance(extent, int) else 0):
        for rest in _points(axes[1:], extents):
            yield {axes[0]: k, **rest}
