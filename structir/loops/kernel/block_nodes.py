"""The kernels of products with fused maps and reductions: calls of library functions for blocks of
rows, and naive loops over the rows of a block between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym, ceildiv
from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    KernelStatement,
    Literal,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.kernel_functions import PANEL_COLUMNS
from structir.ir.struct_info import TensorStructInfo
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import with_inlined_values
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.blocks import BlockSchedule, ColumnSplit
from structir.loops.kernel.library_nodes import FlatNodeWriter
from structir.loops.lower.as_scalar import Values, uses_in
from structir.loops.products.contraction import Contraction
from structir.loops.program.access import Address
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, Expression, axis_dim
from structir.loops.program.stage import Stage
from structir.loops.schedule.edits import calculate, integer

Statements = list[KernelStatement]


def block_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a group with products."""
    return _BlockWriter(group, name).kernel()


class _BlockWriter(FlatNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        self.blocks = BlockSchedule(group)
        split = self.blocks.split
        starts = [self.blocks.start] if split is None else [self.blocks.start, split.start]
        self.flat_axes = (*self.blocks.axes, *starts)
        self.inner: dict[Buffer, Var] = {}  # memory of one block of rows
        self.tables: dict[Stage, tuple[Var, ...]] = {}  # of products of windows
        self.panels: dict[Stage, Var] = {}  # packed right operands, and their columns
        self.columns: tuple[Scalar, Scalar] | None = None  # the ends of a block of columns
        self.values: Values | None = None  # of maps in one loop nest, at a point,
        self.uses: Mapping[Expression, int] | None = None  # and how often these have each value
        self.starts: dict[Dim, Local] = {}  # parts of their indices that the row determines
        collapsed = [*self.blocks.batch, self.blocks.block]
        collapsed += [] if split is None else [split.axes]
        self.collapsed = frozenset([axis for axes in collapsed for axis in axes[:-1]])

    def write_group(self, into: Statements) -> None:
        blocks = self.blocks
        for buffer, moved in blocks.moved.items():
            self.inner[buffer] = self._memory("row", moved.place.shape, moved.place.dtype)
        count, items, unit = blocks.counts()
        if not blocks.batch and count == 1:
            low, high = self.part(items, into)
            self._tables(into)
            self._items(integer(0), low, high, unit, into)
            return
        axes = tuple([axis for group in blocks.batch for axis in group])
        low, high = self.part(self.extent(axes) * count * items, into)
        self._tables(into)
        ends: tuple[Scalar, Scalar] = low, high  # of the loop over blocks,
        within: tuple[Scalar, Scalar] = integer(0), integer(1)  # and of the items of one
        joins = blocks.split is not None and blocks.split.joins != 0
        kind, body = Local if joins else LoopVariable, list[KernelStatement]()
        point = kind("g", "int64")
        if items != 1:
            size = self.divisor(items)
            more = calculate("add", high, calculate("sub", size, integer(1)))
            ends = calculate("floordiv", low, size), calculate("floordiv", more, size)
            skipped = calculate("mul", point, size)
            before = calculate("max", calculate("sub", low, skipped), integer(0))
            after = calculate("min", calculate("sub", high, skipped), size)
            within = self._named("first", before, body), self._named("last", after, body)
        block = self._positions(point, count, body)
        if blocks.split is not None:
            following = calculate("add", block, self._together(blocks.split))
            if blocks.split.joins != 0:
                following = calculate("min", following, ends[1])
            self.columns = self._columns(blocks.split, block, following, body)
        self._pack(body)
        self._items(block, *within, unit, body)
        into.append(self._over_blocks(point, ends, body))

    def _together(self, split: ColumnSplit) -> Scalar:
        """Returns the number of blocks of columns that are processed together."""
        return self.integers(dims.select(split.joins, split.together, 1))[0]

    def _over_blocks(
        self, point: Local, ends: tuple[Scalar, Scalar], body: Statements
    ) -> KernelStatement:
        """Writes the loop over blocks, or over those that are processed together."""
        split = self.blocks.split
        if split is None or split.joins == 0:
            return self.loop_over(point, *ends, body)
        turn, together = LoopVariable("turn", "int64"), self._together(split)
        rest = calculate("add", calculate("sub", ends[1], ends[0]), together)
        turns = calculate("floordiv", calculate("sub", rest, integer(1)), together)
        start = calculate("add", ends[0], calculate("mul", turn, together))
        return self.loop_over(turn, integer(0), turns, [Assign(point, start), *body])

    def _positions(self, point: Local, count: Dim, into: Statements) -> Scalar:
        """Splits the number of a block into positions of the batch, and the block at that point,
        which it returns."""
        if count == 1:
            self.decode(point, self.blocks.batch, into)
            return integer(0)
        size = self.divisor(count)
        block = self._named("block", calculate("mod", point, size), into)
        if self.blocks.batch:
            outer = Local("outer", "int64")
            into.append(Assign(outer, calculate("floordiv", point, size)))
            self.decode(outer, self.blocks.batch, into)
        return block

    def _items(
        self, block: Scalar, first: Scalar, last: Scalar, unit: Dim, into: Statements
    ) -> None:
        """Writes some items of a block: rows, or lines of an image."""
        blocks = self.blocks
        (rows,) = self.integers(self.extent(blocks.block))
        height, parts = integer(blocks.height), list[KernelStatement]()
        if blocks.line is not None:
            start = self._named("i0", calculate("mul", block, height), into)
            end = calculate("min", calculate("add", start, height), rows)
            line = LoopVariable("line", "int64")
            self.scalars.axes[blocks.line] = line
            self._segments(start, self._named("i1", end, into), parts)
            into.append(self.loop_over(line, first, last, parts))
            return
        if unit != 1:
            (together,) = self.integers(unit)
            end = calculate("min", calculate("mul", last, together), rows)
            first, last = calculate("mul", first, together), self._named("stop", end, into)
        row = LoopVariable("i0", "int64")
        end = calculate("min", calculate("add", row, integer(blocks.height + blocks.slack)), last)
        stop = last
        if blocks.slack:
            end = self._named("limit", end, parts)
            is_last = Apply("eq", (end, last), "bool")
            whole = Apply("select", (is_last, last, calculate("add", row, height)), "int64")
            end = calculate("min", end, whole)  # in a form by which its bounds are known
            stop = calculate("sub", last, integer(blocks.slack))
            stop = calculate("max", stop, calculate("add", first, integer(1)))
            stop = calculate("min", stop, last)
        self._segments(row, self._named("i1", end, parts), parts)
        into.append(self.loop_over(row, first, stop, parts, blocks.height))

    @staticmethod
    def _named(name: str, value: Scalar, into: Statements) -> Scalar:
        """Names a value that is computed once, unless it is a number."""
        if isinstance(value, Literal):
            return value
        local = Local(name, "int64")
        into.append(Assign(local, value))
        return local

    def _columns(
        self, split: ColumnSplit, block: Scalar, following: Scalar, into: Statements
    ) -> tuple[Scalar, Scalar]:
        """Writes the ends of the columns of some blocks; `following` is the block after them."""
        size, count, extent = self.integers(split.size, split.count, split.extent)
        low = self._named("c0", calculate("mul", block, size), into)
        is_inner = Apply("lt", (following, count), "bool")
        end = Apply("select", (is_inner, calculate("mul", following, size), extent), "int64")
        self.scalars.axes[split.start] = low
        return low, self._named("c1", end, into)

    def _memory(self, stem: str, shape: Sequence[Dim], dtype: str) -> Var:
        """Allocates an array."""
        array = Var(f"{stem}{len(self.scratch)}", TensorStructInfo(tuple(shape), dtype))
        self.scratch.append(Scratch(array, zeros=False))
        return array

    def _segments(self, start: Scalar, stop: Scalar, into: Statements) -> None:
        """Writes the products of a block of rows, and the loops over its rows."""
        blocks, whole = self.blocks, self.group
        self.scalars.axes[blocks.start] = start
        count = calculate("sub", stop, start)
        row = LoopVariable("r", "int64")
        for part in blocks.segments.parts:
            if isinstance(part, Stage):
                self.stage = part
                into.append(self._product(part, start, count))
                self.done.add(part.out)
            elif part:
                outs = {stage.out for stage in part}
                kept = frozenset(outs & (whole.kept | blocks.segments.passed_buffers))
                own = attrs.evolve(whole, stages=part, rows=blocks.rows, kept=kept)
                self.group = with_inlined_values(own)
                self.scalars.axes[blocks.block[-1]] = row
                inner: Statements = []
                self.row(inner)
                into.append(self.loop_over(row, start, stop, inner))

    def row(self, into: Statements) -> None:
        run = list[Stage]()
        for stage in self.group.stages:
            if run and not self._continues(run, stage):
                self._write_run(run, into)
                run = []
            run.append(stage)
        self._write_run(run, into)

    def _continues(self, run: Sequence[Stage], stage: Stage) -> bool:
        """Whether a value in memory is a map over the axes of others, none of which it reads."""
        outs = {other.out for other in run}
        return all(
            s.parallel == stage.parallel
            and s.simple
            and not s.reduce
            and self.array_of(s.out) is not None
            for s in (run[0], stage)
        ) and not any(load.buffer in outs for load in stage.loads)

    def _write_run(self, run: Sequence[Stage], into: Statements) -> None:
        """Writes one stage, or several values in one loop nest."""
        whole = self.group
        if len(run) == 1:
            self.group = attrs.evolve(whole, stages=tuple(run))
            super().row(into)
            self.group = whole
            return

        def point(body: Statements) -> None:
            self.values = {}
            for self.stage in run:
                self._point(self.stage, body)

        self.uses = uses_in([self._stored(stage, stage.body) for stage in run])
        loops: Statements = []
        self._loops(run[0], self.inner_axes(run[0]), loops, point, "j")
        into += [Assign(name, self.scalars.index(start)) for start, name in self.starts.items()]
        into += loops
        self.values = self.uses = None
        self.starts = {}
        self.done |= {stage.out for stage in run}

    def _value(self, root: Expression, into: Statements) -> Scalar:
        return self.scalars.value(root, into, self.values, self.uses)

    # ---- products

    def _product(self, stage: Stage, start: Scalar, count: Scalar) -> KernelStatement:
        product = self.blocks.products[stage]
        if product.weights is not None:
            return self._pixel_product(stage, product, start, count)
        left, right, out = self._operands(stage, product)
        sizes = [self.extent(product.n), self.extent(product.k)]
        k = product.k[-1]
        steps = [left.coefficient(self.blocks.block[-1])]
        row = out.coefficient(self.blocks.block[-1])
        places = self._places(stage, product)
        if product.windows:
            places = [*places[:2], self._first(self.tables[stage][0]), places[2]]
            integers = [self._width(product), *self.integers(sizes[1], *steps)]
            integers += [self._span(places[1]), *self.integers(row)]
            return self.call("gathered_product", places, [count, *integers])
        steps.append(left.coefficient(k))
        if stage in self.panels:
            panels = self.panels[stage]
            places[1] = self._first(panels)
            sizes += [panels.struct_info.dims[0], *steps, row]  # type: ignore[attr-defined]
            return self.call("packed_product", places, [count, *self.integers(*sizes)])
        more = self.integers(right.coefficient(k), right.coefficient(product.n[-1]), row)
        columns, terms, *strides = self.integers(*sizes, *steps)
        integers = [count, columns, terms, *strides]
        if self.columns is None:
            return self.call("tiled_product", places, [*integers, *more])
        first, last = self.columns
        integers[1] = calculate("sub", last, first)
        if not self.blocks.is_constant(stage):
            return self.call("tiled_product", places, [*integers, *more])
        places[1] = self.flat_element(product.right.buffer, self.scalars.index(right.rest))
        return self.call("column_product", places, [*integers, columns, first, *more])

    def _operands(self, stage: Stage, product: Contraction) -> list[Address]:
        pairs = [
            (product.left.buffer, product.left.entries),
            (product.right.buffer, product.right.entries),
            (stage.out, stage.write),
        ]
        return [self.address(*pair) for pair in pairs]

    def _places(self, stage: Stage, product: Contraction) -> list[Scalar]:
        """Returns the first elements of the operands and of the result, for a block."""
        left, right, out = self._operands(stage, product)
        return [
            self._place(product.left.buffer, left, product),
            self._right(product, right),
            self._place(stage.out, out, product),
        ]

    def _place(self, buffer: Buffer, address: Address, product: Contraction) -> Element:
        skipped = [axis for axis in (*product.n, *product.k) if axis is not self.blocks.line]
        return self.flat_element(buffer, self._block_start(address, skipped))

    def _block_start(self, address: Address, skipped: Sequence[Sym]) -> Scalar:
        """Returns the flat index of the first element of a block, without some axes."""
        split, first = self.blocks.split, {self.blocks.block[-1]: axis_dim(self.blocks.start)}
        if split is not None:
            skipped = [axis for axis in skipped if axis is not split.axes[-1]]
            first[split.axes[-1]] = axis_dim(split.start)
        return self.scalars.index(dims.substitute(self.position(address, skipped), first))

    def _right(self, product: Contraction, address: Address) -> Element:
        """Returns the first element of the right operand; the tables of windows have its rest."""
        if product.windows:
            address = attrs.evolve(address, rest=0)
        start = self._block_start(address, (*product.n, *product.k))
        return self.flat_element(product.right.buffer, start)

    def _first(self, array: Var, index: Scalar | None = None) -> Element:
        dtype = array.struct_info.dtype  # type: ignore[attr-defined]
        return Element(array, (integer(0) if index is None else index,), dtype, flat=True)

    def _pack(self, into: Statements) -> None:
        """Packs right operands that depend on a point of the batch axes."""
        for stage, product in self.blocks.products.items():
            if product.windows or not self.blocks.is_packed_before(stage):
                continue
            self.stage = stage
            columns, terms = self.extent(product.n), self.extent(product.k)
            width = ceildiv(columns, PANEL_COLUMNS) * PANEL_COLUMNS
            panels = self._memory("panels", (width, terms), stage.out.dtype)
            self.panels[stage] = panels
            right = self.address(product.right.buffer, product.right.entries)
            steps = [right.coefficient(product.k[-1]), right.coefficient(product.n[-1])]
            places = [self._first(panels), self._right(product, right)]
            sizes = self.integers(terms, columns, width, *steps)
            into.append(self.call("pack_panels", places, sizes))

    # ---- products of windows

    def _pixel_product(
        self, stage: Stage, product: Contraction, start: Scalar, count: Scalar
    ) -> KernelStatement:
        weights, image, out = self._places(stage, product)
        left, _, written = self._operands(stage, product)
        row = left.coefficient(self.blocks.block[-1])
        assert isinstance(weights, Element)
        weights = self.flat_element(product.left.buffer, self.scalars.index(left.rest))
        columns = self.extent(tuple([a for a in product.n if a is not self.blocks.line]))
        starts, points = self.tables[stage]
        skipped: Dim = 0
        if self.blocks.line is not None:
            skipped = axis_dim(self.blocks.line) * columns
        places = [weights, image, self._first(starts)]
        places += [self._first(points, self.scalars.index(skipped)), out]
        sizes = [columns, self.extent(product.k), self.extent(self.blocks.block), row]
        integers = [count, *self.integers(*sizes), start, self._span(image)]
        integers += self.integers(written.coefficient(self.blocks.block[-1]))
        return self.call("pixel_product", places, integers)

    def _span(self, place: Scalar) -> Scalar:
        """Returns the number of elements of an array from a place on."""
        assert isinstance(place, Element)
        (size,) = self.integers(prod(place.array.struct_info.dims))  # type: ignore[attr-defined]
        return calculate("sub", size, place.indices[0])

    def _width(self, product: Contraction) -> Scalar:
        """Returns the number of elements from the first column to the last, with the gaps."""
        split = self.blocks.split
        width: Dim = 1
        for axis, step in zip(product.n, product.column_steps, strict=True):
            if split is None or axis is not split.axes[-1]:
                width = width + (self.extents[axis] - 1) * step
        if self.columns is None:
            return self.scalars.index(width)
        first = product.column_steps[0]
        (stride,), (inner,) = self.integers(first), self.integers(width - first)
        count = calculate("sub", self.columns[1], self.columns[0])
        return calculate("add", calculate("mul", count, stride), inner)

    def _tables(self, into: Statements) -> None:
        """Writes tables with the offset of each term in the right operand, and with those of the
        columns, if columns are read one by one."""
        for stage, product in self.blocks.products.items():
            if product.windows:
                self.stage = stage
                right = self.address(product.right.buffer, product.right.entries)
                tables = [self._table("starts", product.k, right, right.rest, into)]
                if product.weights is not None:
                    tables.append(self._table("points", product.n, right, 0, into))
                self.tables[stage] = tuple(tables)

    def _table(
        self, stem: str, axes: Sequence[Sym], address: Address, first: Dim, into: Statements
    ) -> Var:
        table = self._memory(stem, (self.extent(tuple(axes)),), "int64")
        offset = first
        number: Dim = 0
        for axis in axes:
            offset = offset + axis_dim(axis) * address.coefficient(axis)
            number = number * self.extents[axis] + axis_dim(axis)

        def entry(body: Statements) -> None:
            at = self.scalars.index(number)
            body.append(Assign(self._first(table, at), self.scalars.index(offset)))

        self._loops(self.stage, axes, into, entry, "u")
        return table

    # ---- blocks of columns

    def inner_axes(self, stage: Stage) -> list[Sym]:
        collapsed = self.collapsed if self.columns is not None else ()
        return [axis for axis in super().inner_axes(stage) if axis not in collapsed]

    def extent_of(self, stage: Stage, axis: Sym) -> Dim:
        split = self.blocks.split
        if split is not None and axis is split.axes[-1]:
            return split.extent
        return super().extent_of(stage, axis)

    def ends_of(self, stage: Stage, axis: Sym) -> tuple[Scalar, Scalar]:
        split = self.blocks.split
        if self.columns is not None and split is not None and axis is split.axes[-1]:
            return self.columns
        return super().ends_of(stage, axis)

    # ---- elements

    def index(self, position: Dim) -> Scalar:
        """Returns the flat index of an element. Maps in one loop nest share the part of it that
        the row determines."""
        if self.values is None:
            return super().index(position)
        start = dims.substitute(position, dict.fromkeys(self.inner_axes(self.stage), 0))
        if not isinstance(start, Poly):
            return super().index(position)
        start = start - start.constant
        if start not in self.starts:
            self.starts[start] = self.scalars.local("start", "int64")
        rest = position - start
        name = self.starts[start]
        return name if rest == 0 else calculate("add", name, super().index(rest))

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        return self.blocks.located(buffer, entries)

    def array_of(self, buffer: Buffer) -> Var | None:
        return self.inner[buffer] if buffer in self.inner else super().array_of(buffer)
