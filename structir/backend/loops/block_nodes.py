"""The kernels of products with fused maps and reductions: calls of library functions for blocks of
rows, and naive loops over the rows of a block between them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.backend.loops.access import Address
from structir.backend.loops.as_kernel import ShownKernel
from structir.backend.loops.blocks import BlockSchedule
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.expression import Entry, axis_dim
from structir.backend.loops.group import Group
from structir.backend.loops.inlined_values import with_inlined_values
from structir.backend.loops.library_nodes import FlatNodeWriter
from structir.backend.loops.stage import Stage
from structir.ir import dims
from structir.ir.dims import Dim, Sym, ceildiv
from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Element,
    KernelStatement,
    Local,
    LoopVariable,
    Scalar,
    Scratch,
)
from structir.ir.kernel_functions import PANEL_COLUMNS
from structir.ir.struct_info import TensorStructInfo
from structir.loops.edits import calculate, integer

Statements = list[KernelStatement]


def block_nodes(group: Group, name: str) -> ShownKernel:
    """Returns the nodes of a group with products."""
    return _BlockWriter(group, name).kernel()


class _BlockWriter(FlatNodeWriter):
    def __init__(self, group: Group, name: str) -> None:
        super().__init__(group, name)
        self.blocks = BlockSchedule(group)
        self.flat_axes = (*self.blocks.axes, self.blocks.start)
        self.inner: dict[Buffer, Var] = {}  # memory of one block of rows
        self.tables: dict[Stage, tuple[Var, ...]] = {}  # of products of windows
        self.panels: dict[Stage, Var] = {}  # packed right operands, and their columns
        collapsed = [*self.blocks.batch, self.blocks.block]
        self.collapsed = frozenset([axis for axes in collapsed for axis in axes[:-1]])

    def write_group(self, into: Statements) -> None:
        blocks = self.blocks
        for buffer, moved in blocks.moved.items():
            self.inner[buffer] = self._memory("row", moved.place.shape, moved.place.dtype)
        (rows,) = self.integers(self.extent(blocks.block))
        if blocks.batch:
            axes = tuple([axis for group in blocks.batch for axis in group])
            low, high = self.part(self.extent(axes), into)
            self._tables(into)
            point, body = LoopVariable("g", "int64"), list[KernelStatement]()
            self.decode(point, blocks.batch, body)
            self._pack(body)
            self._blocks(integer(0), rows, body)
            into.append(self.loop_over(point, low, high, body))
            return
        unit = max(map(blocks.unit, blocks.products))
        if not unit:
            low, high = self.part(self.extent(blocks.block), into)
            self._tables(into)
            self._blocks(low, high, into)
            return
        low, high = self.part(ceildiv(self.extent(blocks.block), unit), into)
        self._tables(into)
        stop = Local("stop", "int64")
        end = calculate("min", calculate("mul", high, integer(unit)), rows)
        into.append(Assign(stop, end))
        self._blocks(calculate("mul", low, integer(unit)), stop, into)

    def _memory(self, stem: str, shape: Sequence[Dim], dtype: str) -> Var:
        """Allocates an array."""
        array = Var(f"{stem}{len(self.scratch)}", TensorStructInfo(tuple(shape), dtype))
        self.scratch.append(Scratch(array, zeros=False))
        return array

    def _blocks(self, low: Scalar, high: Scalar, into: Statements) -> None:
        blocks, whole = self.blocks, self.group
        start, stop = LoopVariable("i0", "int64"), Local("i1", "int64")
        self.scalars.axes[blocks.start] = start
        after = calculate("add", start, integer(blocks.height))
        body: Statements = [Assign(stop, calculate("min", after, high))]
        parts: Statements = body if blocks.line is None else []
        line = LoopVariable("line", "int64")
        if blocks.line is not None:
            self.scalars.axes[blocks.line] = line
        count = calculate("sub", stop, start)
        row = LoopVariable("r", "int64")
        for part in blocks.segments.parts:
            if isinstance(part, Stage):
                self.stage = part
                parts.append(self._product(part, start, count))
                self.done.add(part.out)
            elif part:
                outs = {stage.out for stage in part}
                kept = frozenset(outs & (whole.kept | blocks.segments.passed_buffers))
                own = attrs.evolve(whole, stages=part, rows=blocks.rows, kept=kept)
                self.group = with_inlined_values(own)
                self.scalars.axes[blocks.block[-1]] = row
                inner: Statements = []
                self.row(inner)
                parts.append(self.loop_over(row, start, stop, inner))
        if blocks.line is not None:
            (lines,) = self.integers(self.extents[blocks.line])
            body.append(self.loop_over(line, integer(0), lines, parts))
        into.append(self.loop_over(start, low, high, body, blocks.height))

    def row(self, into: Statements) -> None:
        run = list[Stage]()
        for stage in self.group.stages:
            if run and not self._continues(run, stage):
                self._write_run(run, into)
                run = []
            run.append(stage)
        self._write_run(run, into)

    def _continues(self, run: Sequence[Stage], stage: Stage) -> bool:
        """Whether a result is a map over the axes of others, none of which it reads."""
        outs = {other.out for other in run}
        return all(
            s.parallel == stage.parallel and s.simple and not s.reduce and s.out in self.fills
            for s in (run[0], stage)
        ) and not any(load.buffer in outs for load in stage.loads)

    def _write_run(self, run: Sequence[Stage], into: Statements) -> None:
        """Writes one stage, or several results in one loop nest."""
        whole = self.group
        if len(run) == 1:
            self.group = attrs.evolve(whole, stages=tuple(run))
            super().row(into)
            self.group = whole
            return
        inner = [axis for axis in run[0].parallel if axis not in self._rows()]

        def point(body: Statements) -> None:
            for self.stage in run:
                self._point(self.stage, body)

        self._loops(run[0], inner, into, point, "j")
        self.done |= {stage.out for stage in run}

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
            sizes[0] = self._width(product)
            integers = [*self.integers(*sizes, *steps), self._span(places[1])]
            integers += self.integers(row)
            return self.call("gathered_product", places, [count, *integers])
        steps.append(left.coefficient(k))
        if stage in self.panels:
            panels = self.panels[stage]
            places[1] = self._first(panels)
            sizes += [panels.struct_info.dims[0], *steps, row]  # type: ignore[attr-defined]
            return self.call("packed_product", places, [count, *self.integers(*sizes)])
        steps += [right.coefficient(k), right.coefficient(product.n[-1])]
        sizes += [*steps, row]
        return self.call("tiled_product", places, [count, *self.integers(*sizes)])

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
        first = {self.blocks.block[-1]: axis_dim(self.blocks.start)}
        start = dims.substitute(self.position(address, skipped), first)
        return self.flat_element(buffer, self.scalars.index(start))

    def _right(self, product: Contraction, address: Address) -> Element:
        """Returns the first element of the right operand; the tables of windows have its rest."""
        if product.windows:
            address = attrs.evolve(address, rest=0)
        start = self.position(address, (*product.n, *product.k))
        return self.flat_element(product.right.buffer, self.scalars.index(start))

    def _first(self, array: Var, index: Scalar | None = None) -> Element:
        dtype = array.struct_info.dtype  # type: ignore[attr-defined]
        return Element(array, (integer(0) if index is None else index,), dtype, flat=True)

    def _pack(self, into: Statements) -> None:
        """Packs right operands that depend on a point of the batch axes."""
        for stage, product in self.blocks.products.items():
            if product.windows or not self.blocks.depends_on_batch(stage):
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

    def _width(self, product: Contraction) -> Dim:
        """Returns the number of elements from the first column to the last, with the gaps."""
        width: Dim = 1
        for axis, step in zip(product.n, product.column_steps, strict=True):
            width = width + (self.extents[axis] - 1) * step
        return width

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

    # ---- elements

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        return self.blocks.located(buffer, entries)

    def array_of(self, buffer: Buffer) -> Var | None:
        return self.inner[buffer] if buffer in self.inner else super().array_of(buffer)
