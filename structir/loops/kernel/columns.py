"""The kernel of a reduction along slow axes: the totals of a block of columns in scratch memory, to
which each pass over the columns adds a few terms."""

from __future__ import annotations

from functools import partial, reduce
from math import prod

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    Scalar,
    computed_in,
)
from structir.ir.kernel_functions import NARROW, ROUND
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.column_blocks import ZERO, ColumnBlockWriter, Statements
from structir.loops.kernel.library_nodes import Axes
from structir.loops.lower.as_scalar import accumulated, applied, literal
from structir.loops.lower.rounding import are_skipped, stored
from structir.loops.program.access import address_of, joined_axes
from structir.loops.program.expression import (
    Expression,
    Load,
    Number,
    load,
    rebuilt,
    symbols_of,
)
from structir.loops.program.stage import extents_of
from structir.loops.rewrite.reciprocals import with_reciprocals
from structir.loops.rewrite.view_inlining import value_at
from structir.loops.schedule.edits import calculate, integer
from structir.projections.monoid import MONOIDS

BLOCK = 4096  # totals at once: they and the streams beside them stay in the first cache
UNROLLED = 4  # terms taken together, so that totals are loaded and stored a quarter as often
STREAMS_FROM = 400_000  # elements from which narrow rows come from memory and want one stream


def column_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a group around a reduction along slow axes."""
    return _ColumnWriter(group, name).kernel()


class ColumnGroup:
    """A reduction along slow axes with its maps, and their collapsed axes: rows, the axis of
    columns, and the terms."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.center = next(s for s in group.stages if s.reduce)
        self.producers = {s.out: s for s in group.stages if s.direct and s is not self.center}
        self.extents = extents_of(group.stages)
        self.dtype = computed_in(self.center.out.dtype)
        axes = self.center.axes
        addresses = [
            address_of(r.buffer, r.entries, axes)
            for s in group.stages
            for r in s.loads
            if r.buffer not in self.producers and r.buffer is not self.center.out
        ]
        addresses += [address_of(s.out, s.write, axes) for s in group.stages if s.out in group.kept]
        pinned = frozenset().union(*(s.pinned for s in group.stages))
        joined = joined_axes(self.center.parallel, self.extents, addresses, pinned)
        self.rows, self.vector = joined[:-1], joined[-1]
        self.terms = joined_axes(self.center.reduce, self.extents, addresses, pinned)

    def extent(self, axes: Axes) -> Dim:
        """Returns the number of points along collapsed axes."""
        return prod(self.extents[axis] for axis in axes)

    def inlined(self, root: Expression) -> Expression:
        """Returns an expression with the maps of the group inlined."""

        def leaf(node: Expression) -> Expression:
            producer = self.producers.get(node.buffer) if isinstance(node, Load) else None
            if producer is None or not isinstance(node, Load):
                return node
            value = value_at(producer, node.entries)
            return node if value is None else rebuilt(value, leaf)

        return rebuilt(root, leaf)


class _ColumnWriter(ColumnBlockWriter):
    block = BLOCK

    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        columns = ColumnGroup(group)
        self.inlined, self.center, self.dtype = columns.inlined, columns.center, columns.dtype
        self.stage = columns.center
        self.set_axes(columns.rows, columns.vector, columns.terms)
        self.totals = self.columns_array("totals", self.dtype)
        self.total: Scalar | None = None  # of the column being written

    def write_block(self, into: Statements) -> None:
        identity = literal(MONOIDS[self.center.monoid or ""].identity(self.dtype), self.dtype)
        self.over_columns(
            into, lambda place, body: body.append(Assign(self._total_at(place), identity))
        )
        self.over_axes(self.terms[:-1], into, self._passes)
        self.over_columns(into, self._results)

    def _total_at(self, place: Scalar) -> Element:
        return Element(self.totals, (place,), self.dtype)

    def _passes(self, into: Statements) -> None:
        """Writes the loops over the innermost axis of terms, several terms at a time."""
        axes = self.terms[-1]
        (size,) = self.integers(self.extent(axes))
        even = self._even(size, into)
        for low, high, count in ((ZERO, even, UNROLLED), (even, size, 1)):
            if high is not ZERO:
                self.over_axis(axes, (low, high), into, partial(self._pass, count), count)

    def _even(self, size: Scalar, into: Statements) -> Scalar:
        """Returns the number of terms that are taken several at a time."""
        width = self.extent(self.vector)
        count = self.extent((*self.vector, *self.center.reduce))
        even = calculate("floordiv", size, integer(UNROLLED))
        even = calculate("mul", even, integer(UNROLLED))
        is_narrow, is_long = dims.at_least(BLOCK, width), dims.at_least(count, STREAMS_FROM)
        if is_narrow is False or is_long is False:
            return even
        tests = [("gt", width, BLOCK)] * (is_narrow is None)
        tests += [("lt", count, STREAMS_FROM)] * (is_long is None)
        if not tests:
            return ZERO
        fits = [Apply(fn, (*self.integers(dim), integer(n)), "bool") for fn, dim, n in tests]
        test: Scalar = reduce(lambda one, other: Apply("or", (one, other), "bool"), fits)
        chosen = self.scalars.local("even", "int64")
        into.append(Assign(chosen, Apply("select", (test, even, ZERO), "int64")))
        return chosen

    def _pass(self, count: int, into: Statements) -> None:
        """Writes a pass over the columns, which adds neighbouring terms to each total."""
        last = self.terms[-1][-1]
        first = self.scalars.axes[last]
        add = partial(accumulated, MONOIDS[self.center.monoid or ""].combine)

        def point(place: Scalar, body: Statements) -> None:
            terms = list[Scalar]()
            for number in range(count):
                self.scalars.axes[last] = calculate("add", first, integer(number))
                terms.append(self._value(self.center.body, body))
            self.scalars.axes[last] = first
            total = self._total_at(place)
            body.append(Assign(total, add(total, reduce(add, terms))))

        self.over_columns(into, point)

    def _results(self, place: Scalar, into: Statements) -> None:
        """Writes what is stored of one column: its total, and maps of it."""
        total = self._total_at(place)
        self.total, dtype = self.scalars.local("total", total.dtype), self.center.out.dtype
        value: Scalar = total
        if self.group.kept != {self.center.out} and dtype in NARROW and not are_skipped():
            value = applied(f"{ROUND}{dtype}", [total], total.dtype)
        into.append(Assign(self.total, value))
        for stage in self.group.stages:
            if stage.out in self.group.kept:
                self.stage = stage
                is_center = stage is self.center
                body = load(stage.out, stage.write) if is_center else stage.body
                self._keep(stage, self._value(body, into, stage.out.dtype), into)
            self.done.add(stage.out)

    def _value(self, root: Expression, into: Statements, dtype: str | None = None) -> Scalar:
        """Returns the value of an expression of the group, as an element of `dtype` stores it."""
        body = simplified(self.inlined(root))
        body = body if dtype is None else stored(body, dtype)
        column = self.vector[-1]

        def is_wanted(over: Expression, under: Expression) -> bool:
            varies = [column in symbols_of(side) for side in (over, under)]
            return varies == [True, False] and not isinstance(under, Number)

        return self.scalars.value(with_reciprocals(body, is_wanted), into)

    def read(self, load: Load, into: Statements) -> Scalar:
        is_total = load.buffer is self.center.out and self.total is not None
        return self.total if is_total else super().read(load, into)  # type: ignore[return-value]
