"""The kernel of a reduction along slow axes: the totals of a block of columns in scratch memory, to
which each pass over the columns adds a few terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import prod

from structir.backend.loops.access import address_of, joined_axes
from structir.backend.loops.as_kernel import ShownKernel
from structir.backend.loops.as_scalar import accumulated, applied, literal
from structir.backend.loops.compose import value_at
from structir.backend.loops.expression import (
    Expression,
    Load,
    Number,
    load,
    rebuilt,
    symbols_of,
)
from structir.backend.loops.group import Group
from structir.backend.loops.library_nodes import Axes, FlatNodeWriter
from structir.backend.loops.reciprocals import with_reciprocals
from structir.backend.loops.rounding import are_skipped, stored
from structir.backend.loops.rows import extents_of
from structir.backend.loops.simplify import simplified
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Apply,
    Assign,
    Element,
    KernelStatement,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
    computed_in,
)
from structir.ir.kernel_functions import NARROW, ROUND
from structir.ir.struct_info import TensorStructInfo
from structir.loops.edits import calculate, integer
from structir.projections.monoid import MONOIDS

BLOCK = 4096  # totals at once: they and the streams beside them stay in the first cache
UNROLLED = 4  # terms taken together, so that totals are loaded and stored a quarter as often
STREAMS_FROM = 400_000  # elements from which narrow rows come from memory and want one stream

ZERO = integer(0)


def column_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a group around a reduction along slow axes."""
    return _ColumnWriter(group, name).kernel()


class ColumnGroup:
    """A reduction along slow axes with its maps, and their collapsed axes: rows, the axis of
    columns, and the terms."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.center = next(s for s in group.stages if s.reduce)
        self.makers = {s.out: s for s in group.stages if s.direct and s is not self.center}
        self.extents = extents_of(group)
        self.dtype = computed_in(self.center.out.dtype)
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

    def extent(self, axes: Axes) -> Dim:
        """Returns the number of points along collapsed axes."""
        return prod(self.extents[axis] for axis in axes)

    def inlined(self, root: Expression) -> Expression:
        """Returns an expression with the maps of the group inlined."""

        def leaf(node: Expression) -> Expression:
            maker = self.makers.get(node.buffer) if isinstance(node, Load) else None
            if maker is None or not isinstance(node, Load):
                return node
            value = value_at(maker, node.entries)
            return node if value is None else rebuilt(value, leaf)

        return rebuilt(root, leaf)


class _ColumnWriter(FlatNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        columns = ColumnGroup(group)
        super().__init__(group, name)
        self.columns, self.center, self.vector = columns, columns.center, columns.vector
        self.flat_axes = columns.center.axes
        groups = [*columns.rows, self.vector, *columns.terms]
        self.collapsed = frozenset([axis for axes in groups for axis in axes[:-1]])
        width = self.extent(self.vector)
        # the columns of a block, if it has all of them
        self.width = width if columns.rows and dims.at_least(BLOCK, width) is True else None
        size = BLOCK if self.width is None else self.width
        self.totals = Var("totals", TensorStructInfo((size,), columns.dtype))
        self.scratch.append(Scratch(self.totals, zeros=False))
        self.total: Scalar | None = None  # of the column being written
        self.bounds: tuple[Scalar, Scalar] = ZERO, ZERO  # of a block of columns

    def write_group(self, into: list[KernelStatement]) -> None:
        rows = self.columns.rows
        if not rows:
            low, high = self.part(self.extent(self.vector), into)
            self._blocks(low, high, into)
            return
        low, high = self.part(prod(self.extent(axes) for axes in rows), into)
        row, body = LoopVariable("r", "int64"), list[KernelStatement]()
        self.decode(row, rows, body)
        (width,) = self.integers(self.extent(self.vector))
        if self.width is None:
            self._blocks(ZERO, width, body)
        else:
            self.bounds = ZERO, width
            self._block(body)
        into.append(self.loop_over(row, low, high, body))

    def _blocks(self, low: Scalar, high: Scalar, into: list[KernelStatement]) -> None:
        start, stop = LoopVariable("j0", "int64"), Local("j1", "int64")
        self.bounds = start, stop
        end = Apply("min", (calculate("add", start, integer(BLOCK)), high), "int64")
        body: list[KernelStatement] = [Assign(stop, end)]
        self._block(body)
        into.append(self.loop_over(start, low, high, body, BLOCK))

    def _block(self, into: list[KernelStatement]) -> None:
        """Writes the results of a block of columns."""
        dtype = self.columns.dtype
        identity = literal(MONOIDS[self.center.monoid or ""].identity(dtype), dtype)
        self._over_columns(into, lambda total, body: body.append(Assign(total, identity)))
        self._passes(self.columns.terms, into)
        self._over_columns(into, self._results)

    def _over_columns(
        self,
        into: list[KernelStatement],
        point: Callable[[Element, list[KernelStatement]], None],
    ) -> None:
        """Writes a loop over the columns of the block, each with its total."""
        column, body = LoopVariable(self.unused("j"), "int64"), list[KernelStatement]()
        self.scalars.axes[self.vector[-1]] = column
        place = calculate("sub", column, self.bounds[0])
        point(Element(self.totals, (place,), self.columns.dtype), body)
        into.append(self.loop_over(column, *self.bounds, body, kind=VECTOR))

    def _passes(self, terms: Sequence[Axes], into: list[KernelStatement]) -> None:
        """Writes the loops over terms; of the innermost axis, several at a time."""
        axes, *inner = terms
        (size,) = self.integers(self.extent(axes))
        if inner:
            self._loop(axes, ZERO, size, into, lambda body: self._passes(inner, body))
            return
        even = self._even(size, into)
        if even is not ZERO:
            self._loop(axes, ZERO, even, into, lambda body: self._pass(UNROLLED, body), UNROLLED)
        self._loop(axes, even, size, into, lambda body: self._pass(1, body))

    def _loop(
        self,
        axes: Axes,
        low: Scalar,
        high: Scalar,
        into: list[KernelStatement],
        inner: Callable[[list[KernelStatement]], None],
        step: int = 1,
    ) -> None:
        variable, body = LoopVariable(self.unused("u"), "int64"), list[KernelStatement]()
        self.scalars.axes[axes[-1]] = variable
        inner(body)
        into.append(self.loop_over(variable, low, high, body, step))

    def _even(self, size: Scalar, into: list[KernelStatement]) -> Scalar:
        """Returns the number of terms that are taken several at a time."""
        width, count = self.extent(self.vector), self.extent(self.center.axes)
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

    def _pass(self, count: int, into: list[KernelStatement]) -> None:
        """Writes a pass over the columns, which adds neighbouring terms to each total."""
        last = self.columns.terms[-1][-1]
        first = self.scalars.axes[last]
        add = partial(accumulated, MONOIDS[self.center.monoid or ""].combine)

        def point(total: Element, body: list[KernelStatement]) -> None:
            terms = list[Scalar]()
            for number in range(count):
                self.scalars.axes[last] = calculate("add", first, integer(number))
                terms.append(self._value(self.center.body, body))
            self.scalars.axes[last] = first
            body.append(Assign(total, add(total, reduce(add, terms))))

        self._over_columns(into, point)

    def _results(self, total: Element, into: list[KernelStatement]) -> None:
        """Writes what is stored of one column: its total, and maps of it."""
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

    def _value(
        self, root: Expression, into: list[KernelStatement], dtype: str | None = None
    ) -> Scalar:
        """Returns the value of an expression of the group, as an element of `dtype` stores it."""
        body = simplified(self.columns.inlined(root))
        body = body if dtype is None else stored(body, dtype)
        column = self.vector[-1]

        def is_wanted(over: Expression, under: Expression) -> bool:
            varies = [column in symbols_of(side) for side in (over, under)]
            return varies == [True, False] and not isinstance(under, Number)

        return self.scalars.value(with_reciprocals(body, is_wanted), into)

    def read(self, load: Load, into: list[KernelStatement]) -> Scalar:
        is_total = load.buffer is self.center.out and self.total is not None
        return self.total if is_total else super().read(load, into)  # type: ignore[return-value]
