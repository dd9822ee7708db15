"""The schedule of products with fused maps and reductions: blocks of rows pass through all of them.

A product writes a block of scratch memory, or the result; loops then process the rows of the block
while it is in cache, before the next product. Right operands that depend on a row are packed into
panels once for each point of the batch axes.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import attrs

from structir.backend.cpu.panels import lanes_of, padded_columns
from structir.backend.cpu.products import WIDEST_PANEL, panels_at_once
from structir.backend.cpu.tiles import tile_shapes
from structir.backend.loops.access import Address, address_of, joined_axes
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.column_split import (
    ColumnSplit,
    NotSplitError,
    SplitRows,
    column_split,
)
from structir.backend.loops.contraction import Contraction, contraction_of
from structir.backend.loops.expression import Entry, axis_dim
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
    try:
        return BlockSchedule(group).text()
    except NotSplitError:
        return BlockSchedule(group, splits_columns=False).text()


class BlockSchedule:
    """Writes the kernel of a group with products.

    Its range is over points of the batch, then blocks of columns or of rows, then rows or lines of
    an image.
    """

    def __init__(self, group: Group, splits_columns: bool = True) -> None:
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
        self.table_lines: list[str] = []  # which fill them
        self.packed = {s: packed_constant(s, c) for s, c in self.products.items()}
        self.weights = {s: packed_weights(s, c) for s, c in self.products.items()}
        self.points: dict[Stage, str] = {}
        self._split_rows()
        self.segments = Segments(group, self.products)
        self.line = self._outer_column()
        self.split = self._column_split() if splits_columns else None
        self.rows = group.rows if self.line is None else (*group.rows, self.line)
        starts = (start,) if self.split is None else (start, self.split.start)
        self.writer = Writer((*self.axes, *starts), (*self.rows, *starts))
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

    def _column_split(self) -> ColumnSplit | None:
        """Returns the blocks of columns, if columns are split."""
        if self.line is not None:
            return None
        is_packed = any(panels is not None for panels in self.packed.values())
        rows = self.extent(self.block)
        return column_split(self.group, self.products, self._accesses(), rows, is_packed)

    def _accesses(self) -> list[Address]:
        reads = {r for s in self.group.stages for r in s.loads}
        found = [address_of(r.buffer, r.entries, self.axes) for r in reads]
        return found + [address_of(s.out, s.write, self.axes) for s in self.group.stages]

    def _height(self) -> int:
        together = [panels_at_once(s.out.dtype) * u for s in self.products if (u := self._unit(s))]
        if together or (self.split is None and any(c.windows for c in self.products.values())):
            return min(together, default=FEWER_ROWS)
        return MORE_ROWS if any(self._is_plain(stage) for stage in self.products) else ROWS

    def _unit(self, stage: Stage) -> int:
        """Returns the number of rows per panel of weights."""
        return 0 if self.weights[stage] is None else lanes_of(stage.out.dtype)

    def _is_plain(self, stage: Stage) -> bool:
        """Whether the right operand is packed for each block: a run-time value that all rows of the
        block share."""
        depends = set(self.products[stage].right_address.coefficients) & self.dependent
        return self.packed[stage] is None and (self.split is not None or not depends)

    def _name_axes(self) -> None:
        names = ["g"] if len(self.batch) == 1 else [f"g{i}" for i in range(len(self.batch))]
        self.writer.name_axes(self.batch, names)
        self.writer.name_axes([self.block, (self.start,)], ["r", "i0"])
        if self.line is not None:
            self.writer.names[self.line] = "line"
        if self.split is not None:
            self.writer.names[self.split.start] = "j0"

    def _place_blocks(self) -> None:
        """Allocates scratch memory for values that pass between parts of the kernel and are not
        stored."""
        row = axis_dim(self.block[-1]) - axis_dim(self.start)
        self.writer.local |= {s.out for s in self.group.stages}
        for stage in self.segments.passed:
            if stage.out in self.group.kept:
                continue
            inner = [k for k, e in enumerate(stage.write) if self._is_inner(e)]
            sizes, columns = self._line(stage, [stage.out.shape[k] for k in inner]), None
            if self.split is not None:
                axes = [self._axis_of(stage.write[k]) for k in inner]
                sizes, columns = self.split.memory(dict(zip(axes, sizes, strict=True)))
            place = Buffer((self.height, *sizes), stage.out.dtype, "scratch")
            self.writer.scratch.append(place)
            self.writer.moved[stage.out] = BlockPlace(place, row, tuple(inner), columns)

    def _line(self, stage: Stage, sizes: list[Dim]) -> list[Dim]:
        """Returns the shape of a row of a block, gaps between columns included."""
        found = self.products.get(stage)
        if found is None or not found.windows or self.weights[stage] is not None:
            return sizes
        steps = found.column_steps
        return [sizes[0], *[exact_quotient(a, b) or 0 for a, b in pairwise(steps)]]

    def _is_inner(self, entry: Entry) -> bool:
        symbol = self._axis_of(entry)
        return symbol is not None and symbol not in self.rows

    @staticmethod
    def _axis_of(entry: Entry) -> Any:
        """Returns the axis that an index is by itself, if any."""
        return dims.as_sym(entry)  # type: ignore[arg-type]

    def extent(self, axes: tuple[Sym, ...]) -> Dim:
        """Returns the number of points along some axes."""
        return prod(self.extents[a] for a in axes)

    def text(self) -> KernelText:
        """Returns the source of the kernel."""
        before, inside = list[str](), list[str]()
        for part in self.segments.parts:
            if isinstance(part, Stage):
                before += self._panels(part)
                inside.append(self._call(part))
            elif part:
                inside += self._rows(part)
        lines, extent = self._parts(before, inside)
        return self.writer.finish([*self.table_lines, *lines], extent, self.group.origins)

    def _parts(self, before: list[str], inside: list[str]) -> tuple[list[str], Dim]:
        """Returns the loops over a part of the range, and the range."""
        blocks, items, unit = self._counts()
        if not self.batch and blocks == 1:
            rows = self.writer.size(self.extent(self.block))
            low, high = self._times("lo", unit), self._times("hi", unit)
            if unit != 1:
                high = f"min({high}, {rows})"
            if self.line is not None:
                before = ["i0 = 0", f"i1 = {rows}", *before]
            return [*before, *self._block(inside, low, high)], items
        points = prod(self.extent(group) for group in self.batch) * blocks
        count = self.writer.size(items)
        lines = [] if isinstance(items, int) else [f"items = max({count}, 1)"]
        count = count if isinstance(items, int) else "items"
        lines.append(f"for t in range(lo // {count}, (hi + {count} - 1) // {count}):")
        body = [f"first = max(lo - t * {count}, 0)", f"last = min(hi - t * {count}, {count})"]
        body += self._point(blocks)
        if unit != 1:
            rows = self.writer.size(self.extent(self.block))
            body += [f"first = first * {unit}", f"last = min(last * {unit}, {rows})"]
        body += [*before, *self._block(inside, "first", "last")]
        return [*lines, *indented(body)], points * items

    def _counts(self) -> tuple[Dim, Dim, int]:
        """Returns the number of blocks at each point of the batch, that of the items of each block
        which threads can share, and the number of rows of an item."""
        rows = self.extent(self.block)
        if self.line is not None:
            return ceildiv(rows, self.height), self.extents[self.line], 1
        unit = max(map(self._unit, self.products))
        if not unit:
            unit = self._rows_at_once() if self.batch or self.split is not None else 1
        blocks = 1 if self.split is None else self.split.count
        return blocks, ceildiv(rows, unit), unit

    def _rows_at_once(self) -> int:
        """Returns the number of rows of a tile, which no part splits."""
        return max([s.rows[0] for p in self.products for s in tile_shapes(p.out.dtype)], default=1)

    def _point(self, blocks: Dim) -> list[str]:
        """Returns the lines that split the number of a block into positions of the batch and the
        block at that point."""
        lines, point = list[str](), "t"
        if blocks != 1:
            count, point = self.writer.size(blocks), "g"
            lines.append(f"block = t % {count}")
            if self.batch:
                lines.append(f"g = t // {count}")
        elif len(self.batch) == 1:
            lines.append("g = t")
        number = "block" if blocks != 1 else "0"
        sizes = [self.writer.size(self.extent(g)) for g in self.batch[1:]]
        lines += self.writer.decoded(self.batch, ["", *sizes], point)
        if self.line is not None:
            rows = self.writer.size(self.extent(self.block))
            lines.append(f"i0 = {number} * {self.height}")
            lines.append(f"i1 = min(i0 + {self.height}, {rows})")
        if self.split is not None:
            lines += self.split.ends(number, self.writer.size)
        return lines

    def _block(self, inside: list[str], low: str, high: str) -> list[str]:
        """Returns the loop over blocks of rows, or over the lines of a block, from `low` to
        `high`."""
        if self.line is not None:
            return loops(["line"], [f"{low}, {high}"], inside)
        lines = [f"i1 = min(i0 + {self.height}, {high})", *inside]
        return loops(["i0"], [f"{low}, {high}, {self.height}"], lines)

    @staticmethod
    def _times(end: str, unit: int) -> str:
        return end if unit == 1 else f"{end} * {unit}"

    def _rows(self, stages: tuple[Stage, ...]) -> list[str]:
        """Returns loops over the rows of the block."""
        outs = {s.out for s in stages}
        kept = frozenset(outs & (self.group.kept | self.segments.passed_buffers))
        own = Group("rows", stages, self.rows, kept)
        if self.split is None:
            lines = RowSchedule(own, self.writer).block_lines(self.start)
        else:
            lines = SplitRows(own, self.writer, self.split).block_lines(self.start)
        return ["for r in range(i0, i1):", *indented(lines)]

    def _panels(self, stage: Stage) -> list[str]:
        """Packs a right operand that depends on the batch."""
        found = self.products[stage]
        if found.windows:
            self.table_lines += self._offsets(stage, found)
            return []
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
        split = None if self.split is None else self.split.axes[-1]
        width: Dim = 1
        for axis, step in zip(found.n, found.column_steps, strict=True):
            if axis is not split:
                width = width + (self.extents[axis] - 1) * step
        width_text = size(width)
        if split is not None:
            width_text = f"{width_text} + (j1 - j0 - 1) * {size(found.column_steps[0])}"
        sizes = ["i1 - i0", width_text, size(self.extent(found.k))]
        args = [left, right, out, *sizes, a_row, c_row, self.tables[stage]]
        return f"multiply_windows(({', '.join(args)}))"

    def _call(self, stage: Stage) -> str:
        found, size = self.products[stage], self.writer.size
        if found.windows:
            return self._windows_call(stage, found)
        left, a_row, a_column = self._operand(stage, found)
        out, c_row = self._result(stage, found)
        columns = size(self.extent(found.n)) if self.split is None else "j1 - j0"
        sizes = ["i1 - i0", columns, size(self.extent(found.k))]
        panels = self.packed[stage]
        if panels is not None:
            place = self.writer.pointer(panels)
            if self.split is not None:
                place = f"offset_by({place}, j0 * {size(self.extent(found.k))})"
            args = [left, place, out, *sizes, a_row, a_column, c_row]
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
        if self.split is not None:
            step = address.coefficient(self.split.axes[-1])
            terms += [f"j0 * {self.writer.size(step)}"] if step != 0 else []
        if address.rest != 0:
            terms.append(self.writer.size(address.rest))
        return f"offset_by({pointer}, {' + '.join(terms)})" if terms else pointer
