"""Products with a packed right operand, of floats and of small integers: loops over panels, row
blocks and term blocks around the tile functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from structir.backend.cpu.c_functions import c_function, compile_ir
from structir.backend.cpu.intrinsics import offset_by
from structir.backend.cpu.objects import Loaded, load_or_build
from structir.backend.cpu.panels import panel_registers
from structir.backend.cpu.symbols import extern
from structir.backend.cpu.tiles import (
    PANELS_PER_ROW_TILE,
    PanelFunction,
    TileFunction,
    TileShape,
    row_tile_shape,
)
from structir.backend.math.options import Number, vectorisable

ROW_BLOCK = 256  # rows of the left operand per panel, which stay in L2
TERM_BLOCK = 1024  # terms per block of a reduction
WHOLE = 1 << 40  # terms: no blocking


def load_tiles(
    name: str, shapes: tuple[TileShape, ...], key: str, tile: Callable[..., TileFunction]
) -> None:
    """Builds the tile functions and registers two symbols.

    `name` processes all rows of one panel; `name` with `_row` one row over several panels.
    """
    names = [name, row_name(name)]
    text = partial(tiles_text, name, shapes, tile, in_panels=True)
    code = load_or_build(key, lambda: compile_ir(text(), names))
    for symbol, address in zip(names, code.addresses, strict=True):
        llvm.add_symbol(symbol, address)


def row_name(name: str) -> str:
    """Returns the symbol of the tile function of one row over several panels."""
    return f"{name}_row"


def tiles_text(
    name: str,
    shapes: tuple[TileShape, ...],
    tile: Callable[..., TileFunction],
    in_panels: bool = False,
) -> str:
    """Returns the tile functions of all sizes as LLVM IR."""
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    tiles = {(s.columns, r): tile(module, s, r) for s in shapes for r in s.rows}
    prefetching, rows = dict[int, TileFunction](), list[TileFunction]()
    if in_panels:
        prefetching = {s.columns: tile(module, s, s.rows[0], prefetching=True) for s in shapes}
        rows = [
            tile(module, row_tile_shape(shapes), 1, panels=PANELS_PER_ROW_TILE, name=row_name(name))
        ]
    for function in [*tiles.values(), *prefetching.values(), *rows]:
        function.write()
    functions = {key: function.function for key, function in tiles.items()}
    PanelFunction(module, functions, name, prefetching).write()
    return str(module)


def packed_product(
    name: str, shapes: tuple[TileShape, ...], kinds: tuple[Any, Any], head: int, unit: int
) -> Loaded:
    """Builds the product that calls the tile functions under a symbol.

    `kinds` are the types of operands and results. In a panel, each column has `head` elements, then
    its terms, padded to a multiple of `unit`. Without a head, terms are blocked for the cache.
    """
    operand, result = [types.CPointer(k) for k in kinds]  # type: ignore[no-untyped-call]
    zero, lanes, most = kinds[1](0), shapes[0].lanes, len(shapes)
    term_block = TERM_BLOCK if head == 0 else WHOLE
    widest, wide = lanes * most, lanes * most * PANELS_PER_ROW_TILE
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
                break  # the last of these panels is narrower
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
