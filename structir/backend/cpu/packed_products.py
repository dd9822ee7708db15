"""Products with a packed right operand, of floats and of small integers: loops over panels, row
blocks and term blocks around the tile functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import llvmlite.binding as llvm
from llvmlite import ir

from structir.backend.cpu.c_functions import compile_ir
from structir.backend.cpu.objects import load_or_build
from structir.backend.cpu.panels import each_panel, panel_registers
from structir.backend.cpu.tiles import (
    PANELS_PER_ROW_TILE,
    PanelFunction,
    TileFunction,
    TileShape,
    row_tile_shape,
)
from structir.backend.emit.arithmetic import ElementPointer, FunctionCode, Predicate, Word

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


def pass_packed_panels(
    code: FunctionCode,
    name: str,
    shapes: tuple[TileShape, ...],
    left: tuple[ElementPointer, Word | int, Word | int],
    right: tuple[ElementPointer, Word, Word],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word],
) -> None:
    """Emits the product of a block of rows and terms with all panels.

    The tile functions are those of `load_tiles`. A panel has `size` elements per column; `start` is
    the number of those before the first term of the block. `sizes` are rows, columns and terms.
    """
    lanes, most = shapes[0].lanes, len(shapes)
    widest, wide = lanes * most, lanes * most * PANELS_PER_ROW_TILE
    panels, size, start = right
    c, c_row, adds = out
    rows, n, terms = sizes
    column = code.cell(0)

    def are_wide() -> Predicate:
        rest = n - column.value
        last = panel_registers(rest - wide + widest, lanes, most, code.choice)
        return rows.equals(1) & (rest >= wide) & (last >= most)  # the last one is not narrower

    with code.repeat(are_wide):
        j0 = column.value
        lines = panels.at(j0 * size + start * widest)
        tile = (lines, widest, c.at(j0), c_row, terms, wide, adds)
        code.call_symbol(row_name(name), *left, *tile, size * widest)
        column.set(j0 + wide)
    for j0, registers, width in each_panel(code, n, shapes, column.value):
        lines, columns = panels.at(j0 * size + start * width), code.smaller(width, n - j0)
        tile = (lines, width, c.at(j0), c_row, terms, columns, adds)
        code.call_symbol(name, *left, *tile, registers, rows, width * size)


def fill_with_zeros(code: FunctionCode, c: ElementPointer, m: Word, n: Word, c_row: Word) -> None:
    """Emits the result of a product without terms."""
    zero = "0.0" if c.kind in ("float", "double") else "0"
    for i in code.each(0, m):
        for j in code.each(0, n):
            c.at(i * c_row + j).store(zero)


def packed_product_text(symbol: str, name: str, shapes: tuple[TileShape, ...]) -> str:
    """Returns LLVM IR of the product of floats that calls the tile functions under a symbol."""
    code, dtype = FunctionCode(symbol), shapes[0].dtype
    a, panels, c = code.pointers(dtype, dtype, dtype)
    m, n, k, a_row, a_column, c_row = code.integers(6)
    with code.when(k.equals(0).name):
        fill_with_zeros(code, c, m, n, c_row)
    blocks = code.choice(m > 1, (k + (TERM_BLOCK - 1)) // TERM_BLOCK, 1)
    block = code.larger((k + blocks - 1) // code.larger(blocks, 1), 1)
    for i0 in code.each(0, m, ROW_BLOCK):
        rows = code.smaller(m - i0, ROW_BLOCK)
        for k0 in code.each(0, k, block):
            terms, adds = code.smaller(block, k - k0), code.choice(k0 > 0, 1, 0)
            left = (a.at(i0 * a_row + k0 * a_column), a_row, a_column)
            out = (c.at(i0 * c_row), c_row, adds)
            pass_packed_panels(code, name, shapes, left, (panels, k, k0), out, (rows, n, terms))
    return code.text()
