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

here: Any = offset_by
ROW_BLOCK = 256  # rows of the left operand per panel, which stay in L2
TERM_BLOCK = 1024  # terms per block of a reduction


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
    prefetching, rows = dict[tuple[int, int], TileFunction](), list[TileFunction]()
    if in_panels:
        prefetching = {
            (s.columns, v): tile(module, s, s.rows[0], prefetching=v)
            for s in shapes
            for v in {1, s.vectors}
        }
        rows = [
            tile(module, row_tile_shape(shapes), 1, panels=PANELS_PER_ROW_TILE, name=row_name(name))
        ]
    for function in [*tiles.values(), *prefetching.values(), *rows]:
        function.write()
    functions = {key: function.function for key, function in tiles.items()}
    PanelFunction(module, functions, name, prefetching).write()
    return str(module)


def packed_panel_passes(name: str, shapes: tuple[TileShape, ...]) -> Any:
    """Returns the function that multiplies a block of rows and terms by all panels.

    The tile functions are those of `load_tiles`. A panel has `size` elements per column; `start` is
    the number of those before the first term of the block.
    """
    lanes, most = shapes[0].lanes, len(shapes)
    widest, wide = lanes * most, lanes * most * PANELS_PER_ROW_TILE
    from_here, registers_for = here, vectorisable(panel_registers)
    pass_panel, pass_row = extern(name), extern(row_name(name))

    @vectorisable
    def pass_panels(
        left: tuple[Number, Number, Number],
        right: tuple[Number, Number, Number],
        out: tuple[Number, Number, Number],
        sizes: tuple[Number, Number, Number],
    ) -> None:
        panels, size, start = right
        c, c_row, adds = out
        rows, n, terms = sizes
        j0 = 0
        while rows == 1 and n - j0 >= wide:
            if registers_for(n - j0 - wide + widest, lanes, most) < most:
                break  # the last of these panels is narrower
            lines = from_here(panels, j0 * size + start * widest)
            tile = (lines, widest, from_here(c, j0), c_row, terms, wide, adds)
            pass_row((*left, *tile, widest * size))
            j0 += wide
        while j0 < n:
            registers = registers_for(n - j0, lanes, most)
            width = registers * lanes
            lines = from_here(panels, j0 * size + start * width)
            tile = (lines, width, from_here(c, j0), c_row, terms, min(width, n - j0), adds)
            pass_panel((*left, *tile, registers, rows, width * size))
            j0 += width

    return pass_panels


def packed_product(name: str, shapes: tuple[TileShape, ...], element: Any) -> Loaded:
    """Builds the product of floats that calls the tile functions under a symbol."""
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    zero, from_here = element(0), here
    pass_panels = packed_panel_passes(name, shapes)

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
        blocks = (k + TERM_BLOCK - 1) // TERM_BLOCK if m > 1 else 1
        block = max((k + blocks - 1) // blocks, 1)
        for i0 in range(0, m, ROW_BLOCK):
            rows = min(ROW_BLOCK, m - i0)
            for k0 in range(0, k, block):
                terms, adds = min(block, k - k0), 1 if k0 > 0 else 0
                left = (from_here(a, i0 * a_row + k0 * a_column), a_row, a_column)
                out = (from_here(c, i0 * c_row), c_row, adds)
                pass_panels(left, (panels, k, k0), out, (rows, n, terms))

    return c_function(types.void(pointer, pointer, pointer, *[types.int64] * 6), product)
