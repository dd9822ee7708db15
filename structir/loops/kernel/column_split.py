"""Blocks of columns of a product with maps: the result of each block passes through the maps while
it is in cache, and threads share the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym, ceildiv
from structir.loops.fusion.group import Group
from structir.loops.products.contraction import BLAS_DTYPES, Contraction
from structir.loops.program.access import Address, joined_axes
from structir.loops.program.expression import axis_dim
from structir.loops.program.stage import Stage
from structir.targets.cpu.packed_layout import lanes_of
from structir.targets.cpu.tiles import columns_together, tile_shapes

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
    own. `start` is the first position of the current block.
    """

    axes: tuple[Sym, ...]
    start: Sym
    size: Dim
    slack: int
    extent: Dim

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
        sizes = [self.size + self.slack, *[entries[axis] for axis in rest]]
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
    return ColumnSplit(axes, start, size, slack, extent)


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
