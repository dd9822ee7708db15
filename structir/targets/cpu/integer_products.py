"""Products of int8 rows with packed int8 constants, accumulated in int32.

The constant is packed in panels: the initial accumulator of each column, then groups of terms.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from structir.targets.cpu.arithmetic import FunctionCode
from structir.targets.cpu.code_generation import load_function
from structir.targets.cpu.integer_tiles import (
    HEAD,
    STEPS,
    Grouping,
    IntegerTile,
    grouping,
    integer_shapes,
)
from structir.targets.cpu.objects import symbol_builders
from structir.targets.cpu.packed_layout import (
    ALIGNMENT,
    beside_name,
    fill_with_zeros,
    load_tiles,
    panel_widths,
    pass_packed_panels,
)
from structir.targets.cpu.tiles import TileShape

PANEL = "structir_integer_panel"
PRODUCT = "structir_packed_product_int8"
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
    text = partial(integer_product, PRODUCT, PANEL, shapes, group)
    load_function(f"integer product {shapes} {group}", PRODUCT, text)


def integer_product(symbol: str, name: str, shapes: tuple[TileShape, ...], group: Grouping) -> str:
    """Returns LLVM IR of the product that calls the tile functions under a symbol.

    Blocks of the left operand are converted to words on the stack. The rows of `a` have contiguous
    terms.
    """
    code, unit = FunctionCode(symbol), group.terms
    a, panels, c = code.pointers("int8", "int8", "int32")
    m, n, k, a_row, _, c_row = code.integers(6)
    left = code.stack_memory({1: "int32", 2: "int16", 4: "int8"}[unit], WORDS * unit)
    groups = (k + (unit * STEPS - 1)) // (unit * STEPS) * STEPS
    with code.when(k.equals(0).name):
        fill_with_zeros(code, c, m, n, c_row)
    block = code.choice(m > 1, WORDS // ROW_BLOCK, WORDS)
    for i0 in code.each(0, m, ROW_BLOCK):
        rows = code.smaller(m - i0, ROW_BLOCK)
        for g0 in code.each(0, groups, block):
            count, adds = code.smaller(block, groups - g0), code.choice(g0 > 0, 1, 0)
            width = count * unit
            terms = code.smaller(width, k - g0 * unit)
            for i in code.each(0, rows):
                source, line = a.at((i + i0) * a_row + g0 * unit), left.at(i * width)
                for t in code.each(terms, width):
                    line.at(t).store("0")
                for t in code.each(0, terms):
                    line.at(t).store(_as_word(code, source.at(t).load(), left.kind, group))
            right = (panels, groups * unit + HEAD, g0 * unit)
            out = (c.at(i0 * c_row), c_row, adds)
            sizes = (rows, n, count)
            pass_packed_panels(code, name, shapes, (left, count, 1), right, out, sizes, unit)
    return code.text()


def _as_word(code: FunctionCode, value: str, kind: str, group: Grouping) -> str:
    """Emits the conversion of an element of the left operand."""
    wide = value if kind == "i8" else code.value(f"sext i8 {value} to {kind}")
    return code.value(f"xor {kind} {wide}, {-group.shift}")


symbol_builders |= {
    PANEL: _load_panels,
    beside_name(PANEL): _load_panels,
    PRODUCT: _load_product,
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
