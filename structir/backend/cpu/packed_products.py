"""Products with a right operand that lies in panels, of floats and of small integers alike: what
passes over the panels, by the tiles of either."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from structir.backend.cpu.c_functions import assembled, c_function
from structir.backend.cpu.intrinsics import offset_by
from structir.backend.cpu.objects import Loaded, built
from structir.backend.cpu.panels import panel_registers
from structir.backend.cpu.symbols import extern
from structir.backend.cpu.tiles import BESIDE, PanelFunction, TileFunction, TileShape, beside
from structir.backend.math.options import Number, vectorisable

ROW_BLOCK = 256  # rows of the left operand that pass over one panel: they stay in the second cache
TERM_BLOCK = 1024  # terms of a sum at once
WHOLE = 1 << 40  # terms: all of them


def load_tiles(
    name: str, shapes: tuple[TileShape, ...], key: str, tile: Callable[..., TileFunction]
) -> None:
    """Have the tiles of all sizes under symbols: those down a panel as `name`, that of one row over
    several panels as `name` and `_row`."""
    names = [name, row_name(name)]
    text = partial(tiles_text, name, shapes, tile, in_panels=True)
    made = built(key, lambda: assembled(text(), names))
    for symbol, address in zip(names, made.addresses, strict=True):
        llvm.add_symbol(symbol, address)


def row_name(name: str) -> str:
    """The symbol of the tile of one row over several panels."""
    return f"{name}_row"


def tiles_text(
    name: str,
    shapes: tuple[TileShape, ...],
    tile: Callable[..., TileFunction],
    in_panels: bool = False,
) -> str:
    """The innermost parts, for every size of a tile, as LLVM's text."""
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    tiles = {(s.columns, r): tile(module, s, r) for s in shapes for r in s.rows}
    fetching, rows = dict[int, TileFunction](), list[TileFunction]()
    if in_panels:
        fetching = {s.columns: tile(module, s, s.rows[0], fetching=True) for s in shapes}
        rows = [tile(module, beside(shapes), 1, panels=BESIDE, name=row_name(name))]
    for made in [*tiles.values(), *fetching.values(), *rows]:
        made.write()
    functions = {key: made.function for key, made in tiles.items()}
    PanelFunction(module, functions, name, fetching).write()
    return str(module)


def packed_product(
    name: str, shapes: tuple[TileShape, ...], kinds: tuple[Any, Any], head: int, unit: int
) -> Loaded:
    """The product by the tiles under a symbol, of operands and results of two kinds.

    A column takes `head` elements of a panel before its terms, and these fill up units. Where there
    is no head, terms are taken in blocks: the panel and the rows that meet it stay close.
    """
    operand, result = [types.CPointer(k) for k in kinds]  # type: ignore[no-untyped-call]
    zero, lanes, most = kinds[1](0), shapes[0].lanes, len(shapes)
    term_block = TERM_BLOCK if head == 0 else WHOLE
    widest, wide = lanes * most, lanes * most * BESIDE
    from_here: Any = offset_by
    registers_for = vectorisable(panel_registers)
    pass_panel, pass_row = extern(name), extern(row_name(name))

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
        if k == 0:
            for i in range(m):
                for j in range(n):
                    c[i * c_row + j] = zero
        column = head + (k + unit - 1) // unit * unit
        first = 0
        while m == 1 and n - first >= wide:
            if registers_for(n - first - wide + widest, lanes, most) < most:
                break  # the last one of these panels is narrower
            panel, out = from_here(panels, first * column), from_here(c, first)
            right = (panel, widest, out, c_row, k, wide, 0)
            pass_row((a, a_row, a_column, *right, widest * column))
            first += wide
        blocks = (k + term_block - 1) // term_block
        block = (k + blocks - 1) // max(blocks, 1)
        for i0 in range(0, m, ROW_BLOCK):
            rows = min(ROW_BLOCK, m - i0)
            for k0 in range(0, k, block):
                terms, adds = min(block, k - k0), 1 if k0 > 0 else 0
                left = from_here(a, i0 * a_row + k0 * a_column)
                j0 = first
                while j0 < n:
                    registers = registers_for(n - j0, lanes, most)
                    width = registers * lanes
                    lines = from_here(panels, j0 * column + k0 * width)
                    out = from_here(c, i0 * c_row + j0)
                    right = (lines, width, out, c_row, terms, min(width, n - j0), adds)
                    pass_panel((left, a_row, a_column, *right, registers, rows, width * column))
                    j0 += width

    return c_function(types.void(operand, operand, result, *[types.int64] * 6), product)
