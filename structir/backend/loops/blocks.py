"""The schedule of products with fused maps and reductions: blocks of rows pass through all of them.

A product writes a block of scratch memory, or the result; loops then process the rows of the block
while it is in cache, before the next product. Right operands that depend on a row are packed into
panels once for each point of the batch axes.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import attrs

from structir.backend.cpu.panels import lanes_of, padded_columns
from structir.backend.cpu.products import WIDEST_PANEL, panels_at_once
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction, contraction_of
from structir.backend.loops.expression import axis_dim
from structir.backend.loops.group import Group
from structir.backend.loops.packing import packed_constant, packed_weights
from structir.backend.loops.rows import RowSchedule, extents_of
from structir.backend.loops.segments import Segments
from structir.backend.loops.stage import Stage
from structir.backend.loops.writer import BlockPlace, KernelText, Writer, indented, loops
from structir.ir import dims
from structir.ir.dims import Dim, Sym, ceildiv, exact_quotient

ROWS = 128  # rows of a block with packed right operands
MORE_ROWS = 256  # if they are packed for each block
FEWER_ROWS = 24  # if a row is a whole image
FEWEST_POINTS = 48  # of a line alone: its last tiles may be narrow


def block_kernel(group: Group) -> KernelText:
    """Returns the source of a group with products."""
    return BlockSchedule(group).text()


class BlockSchedule:
    """Writes the kernel of a group with products."""

    def __init__(self, group: Group) -> None:
        self.group, self.extents = group, extents_of(group)
        self.products: dict[Stage, Contraction] = {}
        for stage in group.stages:
            found = contraction_of(stage)
            if found is not None:
                self.products[stage] = found
        self.axes = tuple(dict.fromkeys(a for s in group.stages for a in s.axes))
        start = dims.as_sym(dims.sym("i0"))
        assert start is not None
        self.start = start
        self.tables: dict[Stage, str] = {}
        self.packed = {s: packed_constant(s, c) for s, c in self.products.items()}
        self.weights = {s: packed_weights(s, c) for s, c in self.products.items()}
        self.points: dict[Stage, str] = {}
        self._split_rows()
        self.segments = Segments(group, self.products)
        self.line = self._outer_column()
        self.rows = group.rows if self.line is None else (*group.rows, self.line)
        self.writer = Writer((*self.axes, start), (*self.rows, start))
        self.height = self._height()
        self._name_axes()
        self._place_blocks()

    def _split_rows(self) -> None:
        """Splits the axes into batch axes and those of the rows of a block."""
        dependent = {a for c in self.products.values() for a in c.right_address.coefficients}
        inner = [a for a in self.group.rows if a not in dependent]
        accesses = self._accesses()
        pinned = frozenset().union(*(s.pinned for s in self.group.stages))
        self.block = joined_axes(inner, self.extents, accesses, pinned)[-1]
        outer = [a for a in self.group.rows if a not in self.block]
        self.batch = joined_axes(outer, self.extents, accesses, pinned)
        self.dependent = dependent & set(outer)

    def _outer_column(self) -> Sym | None:
        """Returns an axis of columns that is computed one position at a time, and used while it is
        in cache: the lines of an image."""
        pairs = [(s, c) for s, c in self.products.items() if self.weights[s] is not None]
        if len(self.products) != 1 or not pairs or len(pairs[0][1].n) < 2:
            return None
        line, *columns = pairs[0][1].n
        width, rows = self.extent(tuple(columns)), (*self.group.rows, line)
        if isinstance(width, int) and width < FEWEST_POINTS:
            return None
        led = all(s.parallel[: len(rows)] == rows for s in self.group.stages)
        return line if led else None

    def _accesses(self) -> list[Address]:
        reads = {r for s in self.group.stages for r in s.loads}
        found = [address_of(r.buffer, r.entries, self.axes) for r in reads]
        return found + [address_of(s.out, s.write, self.axes) for s in self.group.stages]

    def _height(self) -> int:
        together = [panels_at_once(s.out.dtype) * u for s in self.products if (u := self._unit(s))]
        if together or any(c.windows for c in self.products.values()):
            return min(together, default=FEWER_ROWS)
        return MORE_ROWS if any(self._is_plain(stage) for stage in self.products) else ROWS

    def _unit(self, stage: Stage) -> int:
        """Returns the number of rows per panel of weights."""
        return 0 if self.weights[stage] is None else lanes_of(stage.out.dtype)

    def _is_plain(self, stage: Stage) -> bool:
        """Whether the right operand is a run-time value that all rows share."""
        depends = set(self.products[stage].right_address.coefficients) & self.dependent
        return self.packed[stage] is None and not depends

    def _name_axes(self) -> None:
        names = ["g"] if len(self.batch) == 1 else [f"g{i}" for i in range(len(self.batch))]
        self.writer.name_axes(self.batch, names)
        self.writer.name_axes([self.block, (self.start,)], ["r", "i0"])
        if self.line is not None:
            self.writer.names[self.line] = "line"

    def _place_blocks(self) -> None:
        """Allocates scratch memory for values that pass between parts of the kernel and are not
        stored."""
        row = axis_dim(self.block[-1]) - axis_dim(self.start)
        self.writer.local |= {s.out for s in self.group.stages}
        for stage in self.segments.passed:
            if stage.out in self.group.kept:
                continue
            inner = [k for k, e in enumerate(stage.write) if self._is_inner(e)]
            shape = (self.height, *self._line(stage, [stage.out.shape[k] for k in inner]))
            place = Buffer(shape, stage.out.dtype, "scratch")
            self.writer.scratch.append(place)
            self.writer.moved[stage.out] = BlockPlace(place, row, tuple(inner))

    def _line(self, stage: Stage, sizes: list[Dim]) -> list[Dim]:
        """Returns the shape of a row of a block, gaps between columns included."""
        found = self.products.get(stage)
        if found is None or not found.windows or self.weights[stage] is not None:
            return sizes
        steps = found.column_steps
        return [sizes[0], *[exact_quotient(a, b) or 0 for a, b in pairwise(steps)]]

    def _is_inner(self, entry: object) -> bool:
        symbol = dims.as_sym(entry)  # type: ignore[arg-type]
        return symbol is not None and symbol not in self.rows

    def extent(self, axes: tuple[Sym, ...]) -> Dim:
        """Returns the number of points along some axes."""
        return prod(self.extents[a] for a in axes)

    def text(self) -> KernelText:
        """Returns the source of the kernel."""
        origins = tuple(dict.fromkeys(s.origin for s in self.group.stages if s.origin))
        before, inside = list[str](), list[str]()
        for part in self.segments.parts:
            if isinstance(part, Stage):
                before += self._panels(part)
                inside.append(self._call(part))
            elif part:
                inside += self._rows(part)
        extent, unit = self.extent(self.block), max(map(self._unit, self.products))
        rows = self.writer.size(extent)
        low, high = ("0", rows) if self.batch else ("lo", "hi")
        if unit and not self.batch:
            low, high, extent = f"lo * {unit}", f"min(hi * {unit}, {rows})", ceildiv(extent, unit)
        head = [f"for i0 in range({low}, {high}, {self.height}):"]
        head.append(f"    i1 = min(i0 + {self.height}, {high})")
        if self.line is not None:
            inside = loops(["line"], [self.writer.size(self.extents[self.line])], inside)
        lines = [*before, *head, *indented(inside)]
        if not self.batch:
            return self.writer.finish(lines, extent, origins)
        sizes = [self.writer.size(self.extent(g)) for g in self.batch[1:]]
        lines = [*self.writer.decoded(self.batch, ["", *sizes], "g"), *lines]
        whole = prod(self.extent(g) for g in self.batch)
        return self.writer.finish(["for g in range(lo, hi):", *indented(lines)], whole, origins)

    def _rows(self, stages: tuple[Stage, ...]) -> list[str]:
        """Returns loops over the rows of the block."""
        outs = {s.out for s in stages}
        kept = frozenset(outs & (self.group.kept | self.segments.passed_buffers))
        own = Group("rows", stages, self.rows, kept)
        lines = RowSchedule(own, self.writer).block_lines(self.start)
        return ["for r in range(i0, i1):", *indented(lines)]

    def _panels(self, stage: Stage) -> list[str]:
        """Packs a right operand that depends on the batch."""
        found = self.products[stage]
        if found.windows:
            return self._offsets(stage, found)
        if self.packed[stage] is not None or self._is_plain(stage):
            return []
        size = padded_columns(self.extent(found.n), lanes_of(stage.out.dtype))
        panels = Buffer((size, self.extent(found.k)), stage.out.dtype, "scratch")
        self.packed[stage] = panels
        self.writer.scratch.append(panels)
        right = found.right_address
        steps = [right.coefficient(found.k[-1]), right.coefficient(found.n[-1])]
        sizes = [self.extent(found.k), self.extent(found.n), *steps]
        place = self._place(self.writer.pointer(found.right.buffer), right, False)
        args = [self.writer.pointer(panels), place, *map(self.writer.size, sizes)]
        return [f"pack_panels(({', '.join(args)}))"]

    def _offsets(self, stage: Stage, found: Contraction) -> list[str]:
        """Computes a table with the offset of each term's line in the right operand, and one of
        each column's, if columns are read one by one."""
        steps = [found.right_address.coefficient(axis) for axis in found.k]
        lines, self.tables[stage] = self._table(found.k, steps, found.right_address.rest, "u")
        if self.weights[stage] is not None:
            more, self.points[stage] = self._table(found.n, found.column_steps, 0, "q")
            lines += more
        return lines

    def _table(
        self, axes: tuple[Sym, ...], steps: list[Dim], start: Dim, letter: str
    ) -> tuple[list[str], str]:
        """Returns lines that fill a table of offsets, and its name."""
        table = Buffer((self.extent(axes),), "int64", "scratch")
        self.writer.scratch.append(table)
        pointer, names = self.writer.pointer(table), [f"{letter}{i}" for i in range(len(axes))]
        held = {axis: self.writer.names.get(axis) for axis in axes}
        self.writer.names.update(zip(axes, names, strict=True))
        offset = start
        for axis, step in zip(axes, steps, strict=True):
            offset = offset + axis_dim(axis) * step
        lines = [f"{pointer}[at] = {self.writer.index_text(offset)}", "at += 1"]
        self.writer.names.update(held)
        sizes = [self.writer.size(self.extents[a]) for a in axes]
        return ["at = 0", *loops(names, sizes, lines)], pointer

    def _windows_call(self, stage: Stage, found: Contraction) -> str:
        size = self.writer.size
        out, c_row = self._result(stage, found)
        plain = attrs.evolve(found.right_address, rest=0)
        right = self._place(self.writer.pointer(found.right.buffer), plain, False)
        if (weights := self.weights[stage]) is not None:
            columns = tuple(axis for axis in found.n if axis is not self.line)
            terms, count = size(self.extent(found.k)), size(self.extent(columns))
            panels = f"offset_by({self.writer.pointer(weights)}, i0 * {terms})"
            points = self.points[stage]
            points = points if self.line is None else f"offset_by({points}, line * {count})"
            args = [right, points, self.tables[stage], panels, out, c_row]
            return f"multiply_pixels(({', '.join([*args, terms, 'i1 - i0', count])}))"
        left, a_row, _ = self._operand(stage, found)
        width: Dim = 1
        for axis, step in zip(found.n, found.column_steps, strict=True):
            width = width + (self.extents[axis] - 1) * step
        sizes = ["i1 - i0", size(width), size(self.extent(found.k))]
        args = [left, right, out, *sizes, a_row, c_row, self.tables[stage]]
        return f"multiply_windows(({', '.join(args)}))"

    def _call(self, stage: Stage) -> str:
        found, size = self.products[stage], self.writer.size
        if found.windows:
            return self._windows_call(stage, found)
        left, a_row, a_column = self._operand(stage, found)
        out, c_row = self._result(stage, found)
        sizes = ["i1 - i0", size(self.extent(found.n)), size(self.extent(found.k))]
        panels = self.packed[stage]
        if panels is not None:
            args = [left, self.writer.pointer(panels), out, *sizes, a_row, a_column, c_row]
            return f"multiply_packed(({', '.join(args)}))"
        address = found.right_address
        right = self._place(self.writer.pointer(found.right.buffer), address, False)
        steps = [size(address.coefficient(axes[-1])) for axes in (found.k, found.n)]
        panel = Buffer((WIDEST_PANEL,), stage.out.dtype, "scratch")
        self.writer.scratch.append(panel)
        args = [left, right, out, *sizes, a_row, a_column, *steps, c_row]
        return f"multiply_tiled(({', '.join([*args, self.writer.pointer(panel)])}))"

    def _operand(self, stage: Stage, found: Contraction) -> tuple[str, str, str]:
        """Returns the address of the left operand's rows of the block, and its strides."""
        address = found.left_address
        moved = self.writer.moved.get(found.left.buffer)
        pointer = self.writer.pointer(found.left.buffer if moved is None else moved.place)
        if moved is not None:
            located = self.writer.located(found.left.buffer, found.left.entries)
            address = address_of(*located, (*self.axes, self.start))
            row = moved.place.strides[0]
            first = self.writer.size(address.rest)  # a slice of the block begins at a later column
            return (
                pointer if address.rest == 0 else f"offset_by({pointer}, {first})",
                self.writer.size(row),
                self.writer.size(address.coefficient(found.k[-1])),
            )
        steps = [address.coefficient(self.block[-1]), address.coefficient(found.k[-1])]
        return (self._place(pointer, address, True), *map(self.writer.size, steps))  # type: ignore[return-value]

    def _result(self, stage: Stage, found: Contraction) -> tuple[str, str]:
        """Returns the address of the block's rows in the result, and their stride."""
        moved = self.writer.moved.get(stage.out)
        if moved is not None:
            return self.writer.pointer(moved.place), self.writer.size(moved.place.strides[0])
        step = self.writer.size(found.out_address.coefficient(self.block[-1]))
        return self._place(self.writer.pointer(stage.out), found.out_address, True), step

    def _place(self, pointer: str, address: Address, at_block: bool) -> str:
        """Returns the address of an operand at this point of the batch and of the block."""
        groups = [*self.batch, (self.start,)] if at_block else list(self.batch)
        groups += [(self.line,)] if at_block and self.line is not None else []
        terms = []
        for group in groups:
            axis = self.block[-1] if group[-1] is self.start else group[-1]
            step = address.coefficient(axis)
            if step != 0:
                terms.append(f"{self.writer.names[group[-1]]} * {self.writer.size(step)}")
        if address.rest != 0:
            terms.append(self.writer.size(address.rest))
        return f"offset_by({pointer}, {' + '.join(terms)})" if terms else pointer
