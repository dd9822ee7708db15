"""The schedule of products with fused maps and reductions: blocks of rows pass through all of them.

A product writes a block of scratch memory, or the result; loops then process the rows of the block
while it is in cache, before the next product. Right operands that depend on a row are packed into
panels once for each point of the batch axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym, ceildiv, exact_quotient
from structir.loops.fusion.group import Group
from structir.loops.products.contraction import (
    BLAS_DTYPES,
    Contraction,
    constant_matrix,
    contraction_of,
)
from structir.loops.program.access import Address, address_of, joined_axes
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Entry, axis_dim
from structir.loops.program.stage import Stage
from structir.system.locks import cached_property
from structir.targets.cpu.line_tiles import LONGEST
from structir.targets.cpu.packed_layout import lanes_of
from structir.targets.cpu.products import has_own_products, most_in_lines, panels_at_once
from structir.targets.cpu.tiles import columns_together, tile_shapes

ROWS = 128  # rows of a block with packed right operands
MORE_ROWS = 256  # if they are packed for each block
TILES = 5  # of rows, if several products read their packed right operands for each block,
GAP = 16  # and elements between its lines: those 4096 bytes apart would evict each other
FEWER_ROWS = 24  # if a row is a whole image
FEWEST_POINTS = 48  # of a line alone: its last tiles may be narrow
COLUMNS = (256, 384)  # of a block whose right operand is packed for it: AVX2, AVX-512,
MOST_COLUMNS = 1536  # of few rows,
BLOCK = (48 << 10, 96 << 10)  # and the elements of their block, which take part of L2,
LINES = 512  # and of one that reads lines of an image
MANY_ROWS = 256  # whose parts have packed weights in common
UNEVEN = 0.03  # of the columns: at most so many less than others has the last block


@attrs.frozen
class ColumnSplit:
    """Blocks of the positions along collapsed axes of columns.

    A block has `size` positions, and the last one up to `slack` more: so few are no block of their
    own. `start` is the first position of the current block. If `joins` is 1, there are at most
    `few` rows, and as many neighbouring blocks are processed `together`: long lines of the right
    operand are read faster. It is 0 otherwise.
    """

    axes: tuple[Sym, ...]
    start: Sym
    size: Dim
    slack: int
    extent: Dim
    joins: Dim = 0
    few: int = 1
    together: int = 1

    @property
    def count(self) -> Dim:
        """The number of blocks."""
        return dims.dim_max(ceildiv(self.extent - self.slack, self.size), 1)

    def memory(self, entries: Mapping[Sym, Dim]) -> tuple[list[Dim], tuple[Dim, ...]]:
        """Returns the sizes and the indices of a block of columns in memory; `entries` are the
        columns with their sizes, gaps included."""
        rest = [axis for axis in entries if axis not in self.axes]
        flat: Dim = 0
        for axis in self.axes:
            flat = flat * entries[axis] + axis_dim(axis)
        width, more = [self.size * blocks + self.slack for blocks in (1, self.together)]
        width = dims.select(self.joins, dims.dim_min(more, self.extent), width)
        sizes = [width, *[entries[axis] for axis in rest]]
        return sizes, (flat - axis_dim(self.start), *map(axis_dim, rest))


def column_split(
    group: Group,
    products: Mapping[Stage, Contraction],
    accesses: Sequence[Address],
    rows: Dim,
    is_packed: bool,
) -> ColumnSplit | None:
    """Returns the blocks of columns of the only product of a group; None if the columns are one
    block, or stages need whole rows.

    Many rows share packed weights: their columns are one block, as threads share the rows.
    """
    (stage, product), *more = products.items()
    if more or product.weights is not None or stage.out.dtype not in BLAS_DTYPES:
        return None
    if not tile_shapes(stage.out.dtype) or not _are_maps(group, stage, product):
        return None
    extents = {a: e for s in group.stages for a, e in s.extents.items()}
    axes, slack = product.n, lanes_of(stage.out.dtype)
    if product.windows:
        axes, slack, width = product.n[:1], 0, _line(product)
        if width is None:
            return None
        least, most, unit = 1, max(LINES // width, 1), 1
    else:
        pinned = frozenset().union(*(s.pinned for s in group.stages))
        if len(joined_axes(axes, extents, accesses, pinned)) > 1:
            return None
        unit = tile_shapes(stage.out.dtype)[-1].columns
        is_wide = len(tile_shapes(stage.out.dtype)) > 2
        least, most = 2 * unit, _most_columns(rows, is_wide) // unit * unit
        if is_packed:
            least = most = unit = columns_together(stage.out.dtype)
    extent: Dim = prod(extents[axis] for axis in axes)
    size: Dim = most
    if isinstance(extent, int):
        even = _even_size(extent, least, most, unit, slack)
        if even is None:
            return None
        size = even
    if is_packed:
        size = dims.select(dims.compare(">=", rows, MANY_ROWS), extent, size)
        if size == extent:
            return None
    start = dims.as_sym(dims.sym("j0"))
    assert start is not None
    together = LONGEST // size if isinstance(size, int) else 1
    if product.windows or together <= 1 or product.column_steps[-1] != 1:
        return ColumnSplit(axes, start, size, slack, extent)
    terms = prod(extents[axis] for axis in product.k)
    count = len(tile_shapes(stage.out.dtype))
    few: int = most_in_lines(terms if isinstance(terms, int) else 1, count)
    joins = dims.compare("<=", rows, few)
    few = min(few, rows) if isinstance(rows, int) else few
    return ColumnSplit(axes, start, size, slack, extent, joins, few, together)


def _most_columns(rows: Dim, is_wide: bool) -> int:
    """Returns the columns of a block that is packed: more of few rows, since long lines are read
    and written faster. CPUs with AVX-512 have larger caches."""
    least, block = COLUMNS[is_wide], BLOCK[is_wide]
    if not isinstance(rows, int):
        return least
    return max(least, min(block // max(rows, 1), MOST_COLUMNS))


def _even_size(extent: int, least: int, most: int, unit: int, slack: int) -> int | None:
    """Returns the size of blocks of which the last one is nearly as large as the others; None if
    they are one block."""
    sizes = [size for size in range(most, least - 1, -unit) if extent > size + slack]

    def missing(size: int) -> float:
        """Returns the positions of the last block that do not exist, relative to all."""
        return max(-(-(extent - slack) // size) * size - extent, 0) / extent

    even = [size for size in sizes if missing(size) <= UNEVEN]
    return even[0] if even else min(sizes, key=missing, default=None)


def _are_maps(group: Group, product: Stage, contraction: Contraction) -> bool:
    """Whether all stages but the product are maps of its columns, at their own points, with these
    as their first axes in a row."""
    written = {s.out: s.write for s in group.stages}
    if any(read.buffer in written for read in product.loads):
        return False
    for stage in group.stages:
        if stage is product:
            continue
        inner = tuple([axis for axis in stage.parallel if axis not in group.rows])
        if stage.reduce or inner[: len(contraction.n)] != contraction.n:
            return False
        reads = [read for read in stage.loads if read.buffer in written]
        if any(read.entries != written[read.buffer] for read in reads):
            return False
    return True


def _line(product: Contraction) -> int | None:
    """Returns the number of elements from one position of the first axis of columns to the next;
    None if it is unknown."""
    steps = product.column_steps
    width = steps[0] if len(steps) > 1 else 1
    return width if isinstance(width, int) else None


@attrs.frozen
class BlockPlace:
    """The memory of a value in the rows of a block: `place` has a line for each row of the block;
    of the value's axes it has those at `inner`, or these indices of `columns`."""

    place: Buffer
    row: Dim
    inner: tuple[int, ...]
    columns: tuple[Dim, ...] | None = None


class BlockSchedule:
    """The blocks of a group with products: its axes, its parts, and the memory between parts.

    The range is over points of the batch, then blocks of columns or of rows, then rows or lines of
    an image.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.extents = {a: e for s in group.stages for a, e in s.extents.items()}
        self.products: dict[Stage, Contraction] = {}
        for stage in group.stages:
            contraction = contraction_of(stage)
            if contraction is not None:
                self.products[stage] = contraction
        self.axes = tuple(dict.fromkeys(a for s in group.stages for a in s.axes))
        start = dims.as_sym(dims.sym("i0"))
        assert start is not None
        self.start = start
        self.moved: dict[Buffer, BlockPlace] = {}
        self._split_rows()
        self.segments = Segments(group, self.products)
        self.line = self._outer_column()
        self.split = self._column_split()
        self.rows = group.rows if self.line is None else (*group.rows, self.line)
        self.height = self._height()
        self.slack = self._slack()
        self._place_blocks()

    def _split_rows(self) -> None:
        """Splits the axes into batch axes and those of the rows of a block."""
        dependent = {a for c in self.products.values() for a in c.right_address.coefficients}
        inner = [a for a in self.group.rows if a not in dependent]
        accesses = self._accesses
        pinned = frozenset().union(*(s.pinned for s in self.group.stages))
        self.block = joined_axes(inner, self.extents, accesses, pinned)[-1]
        outer = [a for a in self.group.rows if a not in self.block]
        self.batch = joined_axes(outer, self.extents, accesses, pinned)
        self.dependent = dependent & set(outer)

    def _outer_column(self) -> Sym | None:
        """Returns an axis of columns that is computed one position at a time, and used while it is
        in cache: the lines of an image."""
        pairs = [(s, c) for s, c in self.products.items() if c.weights is not None]
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
        is_packed = any(map(self.is_constant, self.products))
        rows = self.extent(self.block)
        split = column_split(self.group, self.products, self._accesses, rows, is_packed)
        is_joined = not (split is None or is_packed or self.batch)
        return split if split is None or is_joined else attrs.evolve(split, joins=0)

    @cached_property
    def _accesses(self) -> list[Address]:
        reads = {r for s in self.group.stages for r in s.loads}
        addresses = [address_of(r.buffer, r.entries, self.axes) for r in reads]
        return addresses + [address_of(s.out, s.write, self.axes) for s in self.group.stages]

    def _height(self) -> int:
        together = [panels_at_once(s.out.dtype) * u for s in self.products if (u := self.unit(s))]
        if together or (self.split is None and any(c.windows for c in self.products.values())):
            return min(together, default=FEWER_ROWS)
        most = MORE_ROWS if any(self._is_plain(stage) for stage in self.products) else ROWS
        if self._has_constants:
            most = TILES * self._rows_at_once()
        rows = self.extent(self.block)
        return max(min(rows, most), 1) if isinstance(rows, int) else most

    def _slack(self) -> int:
        """Returns the rows by which the last block may be longer: a block of few rows would read
        all right operands for them."""
        rows = self.extent(self.block)
        is_one = isinstance(rows, int) and rows <= self.height
        return self.height // 2 if self._has_constants and not is_one else 0

    @property
    def _has_constants(self) -> bool:
        """Whether a block passes through several products by constants."""
        return len(self.products) > 1 and all(map(self.is_constant, self.products))

    def unit(self, stage: Stage) -> int:
        """Returns the number of rows per panel of weights; 0 without weights."""
        return 0 if self.products[stage].weights is None else lanes_of(stage.out.dtype)

    def _is_plain(self, stage: Stage) -> bool:
        """Whether the right operand is a run-time value that is not packed before the rows."""
        return not (self.is_constant(stage) or self.is_packed_before(stage))

    def is_constant(self, stage: Stage) -> bool:
        """Whether the right operand is one constant matrix."""
        product = self.products[stage]
        if product.windows or not has_own_products(stage.out.dtype):
            return False
        buffer, axes = product.right.buffer.root, (product.k, product.n)
        return constant_matrix(stage, buffer, product.right_address, *axes) is not None

    def is_packed_before(self, stage: Stage) -> bool:
        """Whether the right operand is packed at each point of the batch axes: it depends on
        them, and all rows read all of it."""
        depends = set(self.products[stage].right_address.coefficients) & self.dependent
        return bool(depends) and self.split is None

    def counts(self) -> tuple[Dim, Dim, Dim]:
        """Returns the number of blocks at each point of the batch, that of the items of each block
        which threads can share, and the number of rows of an item."""
        rows = self.extent(self.block)
        if self.line is not None:
            return ceildiv(rows, self.height), self.extents[self.line], 1
        unit = max(map(self.unit, self.products))
        if not unit:
            unit = self._rows_at_once() if self.batch or self.split is not None else 1
        if self.split is None:
            return 1, ceildiv(rows, unit), unit
        joins = self.split.joins
        items = dims.select(joins, 1, ceildiv(rows, unit))
        return self.split.count, items, dims.select(joins, self.split.few, unit)

    def _rows_at_once(self) -> int:
        """Returns the number of rows of a tile, which no part splits."""
        return max([s.rows[0] for p in self.products for s in tile_shapes(p.out.dtype)], default=1)

    def _place_blocks(self) -> None:
        """Allocates scratch memory for values that pass between parts of the kernel and are not
        stored."""
        row = axis_dim(self.block[-1]) - axis_dim(self.start)
        for stage in self.segments.passed:
            if stage.out in self.group.kept:
                continue
            inner = [k for k, e in enumerate(stage.write) if self._is_inner(e)]
            sizes, columns = self._line(stage, [stage.out.shape[k] for k in inner]), None
            height: Dim = self.height + self.slack
            if self.split is not None:
                height = dims.select(self.split.joins, self.split.few, height)
                axes = [self._axis_of(stage.write[k]) for k in inner]
                sizes, columns = self.split.memory(dict(zip(axes, sizes, strict=True)))
            place = Buffer((height, *sizes), stage.out.dtype, "scratch")
            self.moved[stage.out] = BlockPlace(place, row, tuple(inner), columns)

    def _line(self, stage: Stage, sizes: list[Dim]) -> list[Dim]:
        """Returns the shape of a row of a block, gaps between columns included."""
        contraction = self.products.get(stage)
        if contraction is None or not contraction.windows or contraction.weights is not None:
            gap = GAP if self._has_constants else 0
            return [*sizes[:-1], *[size + gap for size in sizes[-1:]]]
        steps = contraction.column_steps
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

    def located(
        self, buffer: Buffer, entries: tuple[Entry, ...]
    ) -> tuple[Buffer, tuple[Entry, ...]]:
        """Returns the memory of an element: its buffer, or the block in place of it."""
        moved = self.moved.get(buffer)
        if moved is None:
            return buffer, entries
        columns = moved.columns
        if columns is None:
            return moved.place, (moved.row, *[entries[k] for k in moved.inner])
        return moved.place, (moved.row, *columns)


class Segments:
    """The execution order of the stages of a group with products.

    `parts` alternates between loops and products. `passed` are the stages whose results pass
    between parts.
    """

    def __init__(self, group: Group, products: Mapping[Stage, Contraction]) -> None:
        self.products = list(products)
        self.producers = {s.out: s for s in group.stages}
        self.readers: dict[Stage, list[Stage]] = {s: [] for s in group.stages}
        for stage in group.stages:
            for read in stage.loads:
                producer = self.producers.get(read.buffer)
                if producer is not None and producer is not stage:
                    self.readers[producer].append(stage)
        self.at: dict[Stage, int] = {}
        for stage in group.stages:
            self._place_first(stage)
        for stage in reversed(group.stages):
            self._place_late(stage, group)
        self.parts: list[Stage | tuple[Stage, ...]] = []
        for number in range(len(self.products) + 1):
            loops = [s for s in group.stages if s not in products and self.at[s] == number]
            self.parts.append(tuple(loops))
            self.parts += self.products[number : number + 1]
        self.passed = [s for s in group.stages if self._passes(s)]
        self.passed_buffers: frozenset[Buffer] = frozenset(s.out for s in self.passed)

    def _place_first(self, stage: Stage) -> None:
        """Places a stage as early as its operands allow: part n precedes product n."""
        level = 0
        for read in stage.loads:
            producer = self.producers.get(read.buffer)
            if producer is not None and producer is not stage:
                after = 1 if producer in self.products else 0
                level = max(level, self.at[producer] + after)
        self.at[stage] = self.products.index(stage) if stage in self.products else level

    def _place_late(self, stage: Stage, group: Group) -> None:
        """Moves maps that have no earlier user to a later part, so that less passes between
        parts. Operands of products pass in any case: they stay together."""
        readers = self.readers[stage]
        is_operand = any(r in self.products for r in readers)
        if stage not in self.products and not stage.reduce and readers and not is_operand:
            self.at[stage] = max(self.at[stage], min(self.at[r] for r in readers))

    def _passes(self, stage: Stage) -> bool:
        if stage in self.products:
            return True
        return any(r in self.products or self.at[r] != self.at[stage] for r in self.readers[stage])
