"""Products of int8 rows with packed int8 constants, accumulated in int32.

The constant is packed in panels: the initial accumulator of each column, then groups of terms.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numpy.typing import NDArray

from structir.backend.cpu.c_functions import c_function
from structir.backend.cpu.integer_tiles import (
    HEAD,
    STEPS,
    Grouping,
    IntegerTile,
    grouping,
    integer_shapes,
)
from structir.backend.cpu.intrinsics import stack_memory
from structir.backend.cpu.objects import Loaded, load_or_build, symbol_builders
from structir.backend.cpu.packed_products import here, load_tiles, packed_panel_passes, row_name
from structir.backend.cpu.panels import ALIGNMENT, panel_widths
from structir.backend.cpu.tiles import TileShape
from structir.backend.math.options import Number

PANEL = "structir_integer_panel"
ROW_BLOCK = 96  # rows of the left operand: a multiple of the heights of all tiles
WORDS = ROW_BLOCK * 512  # of a block of the left operand, on the stack


@cache
def _load_panels() -> None:
    shapes, group = integer_shapes(), grouping()
    key = f"integer tiles {shapes} {group}"
    load_tiles(PANEL, shapes, key, partial(IntegerTile, group=group))


@cache
def _load_product() -> None:
    shapes, group = integer_shapes(), grouping()
    build = partial(integer_product, PANEL, shapes, group)
    code = load_or_build(f"integer product {shapes} {group}", build)
    llvm.add_symbol("structir_packed_product_int8", code.addresses[0])


def integer_product(name: str, shapes: tuple[TileShape, ...], group: Grouping) -> Loaded:
    """Builds the product that calls the tile functions under a symbol.

    Blocks of the left operand are converted to words on the stack. The rows of `a` have contiguous
    terms.
    """
    unit, from_here = group.terms, here
    pass_panels = packed_panel_passes(name, shapes)
    part: Any = {1: types.int32, 2: types.int16, 4: types.int8}[unit]
    memory = stack_memory(part, WORDS * unit)
    sign = part(-group.shift)

    def product(
        a: Number,
        panels: Number,
        c: Number,
        m: Number,
        n: Number,
        k: Number,
        a_row: Number,
        a_column: Number,
        c_row: Number,
    ) -> None:
        left, groups = memory(), (k + unit * STEPS - 1) // (unit * STEPS) * STEPS
        if k == 0:
            for i in range(m):
                for j in range(n):
                    c[i * c_row + j] = 0
        block = WORDS // ROW_BLOCK if m > 1 else WORDS
        for i0 in range(0, m, ROW_BLOCK):
            rows = min(ROW_BLOCK, m - i0)
            for g0 in range(0, groups, block):
                count, adds = min(block, groups - g0), 1 if g0 > 0 else 0
                terms = min(count * unit, k - g0 * unit)
                for i in range(rows):
                    source = from_here(a, (i0 + i) * a_row + g0 * unit)
                    line = from_here(left, i * count * unit)
                    for t in range(terms, count * unit):
                        line[t] = 0
                    for t in range(terms):
                        line[t] = source[t] ^ sign
                right = (panels, HEAD + groups * unit, g0 * unit)
                out = (from_here(c, i0 * c_row), c_row, adds)
                pass_panels((left, count, 1), right, out, (rows, n, count))

    kinds = [types.CPointer(kind) for kind in (types.int8, types.int8, types.int32)]  # type: ignore[no-untyped-call]
    return c_function(types.void(*kinds, *[types.int64] * 6), product)


symbol_builders |= {
    PANEL: _load_panels,
    row_name(PANEL): _load_panels,
    "structir_packed_product_int8": _load_product,
}


def packed_integers(matrix: NDArray[np.int8]) -> NDArray[np.int8]:
    """Packs a matrix (terms, columns) into panels: initial accumulators, then groups of terms."""
    group, shapes = grouping(), integer_shapes()
    terms, columns = matrix.shape
    lines = -(-terms // (group.terms * STEPS)) * STEPS
    widths = panel_widths(columns, shapes)
    whole = np.zeros((lines * group.terms, sum(widths)), np.int8)
    whole[:terms, :columns] = matrix
    starts = -group.shift * whole.sum(axis=0, dtype=np.int32)
    memory = np.empty(whole.size + 4 * len(starts) + ALIGNMENT, np.int8)
    panels = memory[-memory.ctypes.data % ALIGNMENT :][: whole.size + 4 * len(starts)]
    at = offset = 0
    for width in widths:
        columns_here = slice(at, at + width)
        grouped = whole[:, columns_here].reshape(lines, group.terms, width).transpose(0, 2, 1)
        for part in (starts[columns_here].view(np.int8), grouped.ravel()):
            panels[offset : offset + part.size] = part
            offset += part.size
        at += width
    return panels
