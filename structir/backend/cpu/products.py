"""Matrix products of any size and stride: register tiles, and panels of the right operand in cache.

Each library function is built on first use and registered under a symbol. On CPUs without AVX2 and
FMA, kernels call BLAS instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types

from structir.backend.cpu.c_functions import c_function, compile_ir
from structir.backend.cpu.intrinsics import copy_filled, offset_by, prefetch
from structir.backend.cpu.objects import Loaded, load_or_build, symbol_builders
from structir.backend.cpu.packed_products import (
    ROW_BLOCK,
    TERM_BLOCK,
    load_tiles,
    packed_product,
    row_name,
    tiles_text,
)
from structir.backend.cpu.panels import panel_registers
from structir.backend.cpu.pixel_tiles import pixel_registers, pixel_tiles_text, terms_at_once
from structir.backend.cpu.symbols import extern
from structir.backend.cpu.tiles import (
    TileFunction,
    TileShape,
    cut_shapes,
    paired_shapes,
    tile_shapes,
)
from structir.backend.cpu.transposes import write_transpose
from structir.backend.math.options import Number, vectorisable

DTYPES: dict[str, Any] = {"float32": types.float32, "float64": types.float64}
FEWER_ROWS = 4  # up to this, a product is bound by the bandwidth of its right operand,
FEW_TERMS = 32  # which is read in short blocks of terms, so that few lines are open at once
MOST_PANELS = 8  # panels that are packed together: each line is read in a longer run
AHEAD = 8  # prefetch distance in lines,
LINE = 16  # and step in elements, at least a cache line
FEW_ROWS = 8  # up to this, a left operand is not transposed
UNPACKED_ROWS = (16, 32)  # up to this, a panel is not packed: with AVX2, and with AVX-512,
UNPACKED_TERMS = 128  # which does not pack so few terms either
here: Any = offset_by
fill: Any = copy_filled
fetch: Any = prefetch
WIDEST_PANEL = 48 * TERM_BLOCK  # elements of scratch memory of a product
LEFT_ROWS, LEFT_TERMS = 96, 256  # of a block of a transposed left operand, in half of that memory


def lines_copier(lanes: int) -> Any:
    """Returns the function that packs lines narrower than the panel with masked vectors.

    The padding stays uninitialized: results of its columns are never stored.
    """

    @vectorisable
    def copy_lines(
        panel: Number, source: Number, terms: Number, columns: Number, width: Number, row: Number
    ) -> Number:
        for t in range(terms):
            for j in range(0, width, lanes):
                to, left = here(panel, t * width + j), columns - j
                fill(to, here(source, t * row + j), left, lanes)

    return copy_lines


@vectorisable
def copy_panel(
    panel: Number,
    source: Number,
    terms: Number,
    columns: Number,
    width: Number,
    row: Number,
    column: Number,
    zero: Number,
) -> Number:
    """Packs a panel of the right operand, padded with zeros to the width of a tile."""
    if column == 1 and columns == width:
        for t in range(terms):
            for j in range(width):
                panel[t * width + j] = source[t * row + j]
    else:
        for t in range(terms):
            for j in range(width):
                inside = j < columns
                value = source[t * row + (j if inside else 0) * column]
                panel[t * width + j] = value if inside else zero


def panel_filler(shape: TileShape) -> Any:
    """Returns the function that packs a panel; contiguous columns are transposed in registers."""
    zero, lanes = DTYPES[shape.dtype](0), shape.lanes
    from_here: Any = offset_by
    transpose_square = extern(f"structir_transpose_{shape.dtype}")

    @vectorisable
    def fill_panel(
        panel: Number,
        source: Number,
        terms: Number,
        columns: Number,
        width: Number,
        row: Number,
        column: Number,
    ) -> Number:
        turned = 0
        if row == 1 and column != 1 and columns == width:
            turned = terms // lanes * lanes
            for t in range(0, turned, lanes):
                for j in range(0, width, lanes):
                    to = from_here(panel, t * width + j)
                    transpose_square((to, width, from_here(source, t + j * column), column))
        rest, lines = from_here(panel, turned * width), from_here(source, turned * row)
        copy_panel(rest, lines, terms - turned, columns, width, row, column, zero)

    return fill_panel


@vectorisable
def copy_panels(
    panels: Number,
    source: Number,
    terms: Number,
    columns: Number,
    width: Number,
    row: Number,
    room: Number,
) -> Number:
    """Packs the next full panels line by line; returns their number of columns."""
    # Consecutive lines are on different pages, which hardware prefetchers do not cross.
    count = min(max(room // (width * terms), 1), MOST_PANELS, columns // width)
    for t in range(terms):
        for p in range(count):
            to, line = here(panels, (p * terms + t) * width), here(source, t * row + p * width)
            for part in range(0, width, LINE):
                fetch(line, AHEAD * row + part)
            for j in range(width):
                to[j] = line[j]
    return count * width


def is_packed(rows: Number, terms: Number, most: Number) -> Number:
    """Whether panels of contiguous columns are packed, for tiles of up to so many registers: few
    lines stay in the first-level cache, and few rows read them once or twice."""
    if most > 2:
        return rows > UNPACKED_ROWS[-1] and terms > UNPACKED_TERMS
    return rows > UNPACKED_ROWS[0]


def panel_passes(shapes: tuple[TileShape, ...]) -> Any:
    """Returns the function that adds a block of terms to some rows of the result, panel by panel of
    the right operand, which is packed in `room` elements."""
    lanes, most = shapes[0].lanes, len(shapes)
    from_here: Any = offset_by
    copy_lines, registers_for = lines_copier(lanes), vectorisable(panel_registers)
    fill_panel = panel_filler(shapes[0])
    pass_panel = extern(f"structir_panel_{shapes[0].dtype}")
    needs_packing = vectorisable(is_packed)

    @vectorisable
    def pass_panels(
        left: tuple[Number, Number, Number],
        right: tuple[Number, Number, Number],
        out: tuple[Number, Number, Number],
        sizes: tuple[Number, Number, Number],
        panel: Number,
        room: Number,
    ) -> None:
        b, b_row, b_column = right
        c, c_row, adds = out
        rows, n, terms = sizes
        j0, copied, first = 0, 0, 0
        packs = b_column != 1 or needs_packing(rows, terms, most)
        while j0 < n:
            registers = registers_for(n - j0, lanes, most)
            width = registers * lanes
            columns = min(width, n - j0)
            lines, step = from_here(b, j0 * b_column), b_row
            if columns < width and b_column == 1:
                copy_lines(panel, lines, terms, columns, width, b_row)
                lines, step = panel, width
            elif packs and b_column == 1 and registers == most:
                if j0 >= copied:
                    first = j0
                    copied = j0 + copy_panels(panel, lines, terms, n - j0, width, b_row, room)
                lines, step = from_here(panel, (j0 - first) * terms), width
            elif packs:
                fill_panel(panel, lines, terms, columns, width, b_row, b_column)
                lines, step = panel, width
            tile = (lines, step, from_here(c, j0), c_row, terms, columns, adds)
            pass_panel((*left, *tile, registers, rows, 0))
            j0 += width

    return pass_panels


def _build_product(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the product of unpacked operands, which packs panels of the right one as needed.

    Blocks of a transposed left operand are transposed: its columns would evict each other."""
    element = DTYPES[shapes[0].dtype]
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    zero, from_here = element(0), here
    pass_panels = panel_passes(shapes)
    transpose = extern(f"structir_turning_{shapes[0].dtype}")

    def product(
        a: Number,
        b: Number,
        c: Number,
        m: Number,
        n: Number,
        k: Number,
        a_row: Number,
        a_column: Number,
        b_row: Number,
        b_column: Number,
        c_row: Number,
        panel: Number,
    ) -> None:
        if k <= 0:
            for i in range(m):
                for j in range(n):
                    c[i * c_row + j] = zero
        turned = a_row == 1 and a_column != 1 and m > FEW_ROWS
        room = WIDEST_PANEL - (LEFT_ROWS * LEFT_TERMS if turned else 0)
        row, column = (LEFT_TERMS, 1) if turned else (a_row, a_column)
        together = LEFT_ROWS if turned else ROW_BLOCK
        for i0 in range(0, m, together):
            rows = min(together, m - i0)
            block = FEW_TERMS if rows <= FEWER_ROWS and b_column == 1 else TERM_BLOCK
            block = min(block, LEFT_TERMS) if turned else block
            for k0 in range(0, k, block):
                terms, adds = min(block, k - k0), 1 if k0 > 0 else 0
                left = from_here(a, i0 * a_row + k0 * a_column)
                if turned:
                    lines = from_here(panel, room)
                    transpose((lines, left, rows, terms, LEFT_TERMS, a_column))
                    left = lines
                right = (from_here(b, k0 * b_row), b_row, b_column)
                out = (from_here(c, i0 * c_row), c_row, adds)
                pass_panels((left, row, column), right, out, (rows, n, terms), panel, room)

    signature = types.void(*[pointer] * 3, *[types.int64] * 8, pointer)
    return c_function(signature, product)


def _build_packed_product(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the product with a packed right operand."""
    return packed_product(f"structir_panel_{shapes[0].dtype}", shapes, DTYPES[shapes[0].dtype])


def _build_paired_product(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the product with panels of at most two registers."""
    dtype = shapes[0].dtype
    return packed_product(f"structir_paired_panel_{dtype}", paired_shapes(dtype), DTYPES[dtype])


def _build_windows_product(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the product whose right operand has a table with the offset of each term's line."""
    element = DTYPES[shapes[0].dtype]
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    offsets: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
    zero, lanes, most = element(0), shapes[0].lanes, len(shapes)
    from_here: Any = offset_by
    registers_for = vectorisable(panel_registers)
    pass_whole = extern(f"structir_windows_panel_{shapes[0].dtype}")
    pass_cut = extern(f"structir_cut_windows_panel_{shapes[0].dtype}")

    def product(
        a: Number,
        b: Number,
        c: Number,
        m: Number,
        n: Number,
        k: Number,
        a_row: Number,
        c_row: Number,
        table: Number,
    ) -> None:
        if k <= 0:
            for i in range(m):
                for j in range(n):
                    c[i * c_row + j] = zero
        blocks = (k + TERM_BLOCK - 1) // TERM_BLOCK
        block = (k + blocks - 1) // max(blocks, 1)
        for k0 in range(0, k, block):
            terms, adds = min(block, k - k0), 1 if k0 > 0 else 0
            left, starts = from_here(a, k0), from_here(table, k0)
            j0 = 0
            while j0 < n:
                registers = registers_for(n - j0, lanes, most)
                width = registers * lanes
                columns = min(width, n - j0)
                lines, out = from_here(b, j0), from_here(c, j0)
                right = (lines, starts, out, c_row, terms, columns, adds)
                if columns == width:
                    pass_whole((left, a_row, 1, *right, registers, m, 0))
                else:
                    pass_cut((left, a_row, 1, *right, registers, m, 0))
                j0 += width

    return c_function(types.void(*[pointer] * 3, *[types.int64] * 5, offsets), product)


def _transpose_text(shape: TileShape, name: str) -> str:
    """Returns LLVM IR of the in-register transpose of a square."""
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    element = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
    write_transpose(module, name, element, shape.lanes)
    return str(module)


def _build_packing(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the function that packs a right operand."""
    element = DTYPES[shapes[0].dtype]
    pointer: Any = types.CPointer(element)  # type: ignore[no-untyped-call]
    lanes, most = shapes[0].lanes, len(shapes)
    from_here: Any = offset_by
    registers_for, fill_panel = vectorisable(panel_registers), panel_filler(shapes[0])

    def packing(
        panels: Number, b: Number, k: Number, n: Number, b_row: Number, b_column: Number
    ) -> None:
        j0 = 0
        while j0 < n:
            width = registers_for(n - j0, lanes, most) * lanes
            panel, lines = from_here(panels, j0 * k), from_here(b, j0 * b_column)
            fill_panel(panel, lines, k, min(width, n - j0), width, b_row, b_column)
            j0 += width

    return c_function(types.void(*[pointer] * 2, *[types.int64] * 4), packing)


def _build_transpose(shapes: tuple[TileShape, ...]) -> Loaded:
    """Builds the matrix transpose: squares in registers, edges element by element."""
    pointer: Any = types.CPointer(DTYPES[shapes[0].dtype])  # type: ignore[no-untyped-call]
    lanes, dtype = shapes[0].lanes, shapes[0].dtype
    transpose_square = extern(f"structir_transpose_{dtype}")
    block = 2 * lanes  # squares that share cache lines are processed together

    def transpose(
        to: Number,
        source: Number,
        rows: Number,
        columns: Number,
        to_line: Number,
        source_line: Number,
    ) -> None:
        whole_rows, whole_columns = rows // lanes * lanes, columns // lanes * lanes
        for first in range(0, whole_rows, block):
            last = min(first + block, whole_rows)
            for j in range(0, whole_columns, lanes):
                for i in range(first, last, lanes):
                    place = here(source, j * source_line + i)
                    transpose_square((here(to, i * to_line + j), to_line, place, source_line))
            for j in range(whole_columns, columns):
                for k in range(first, last):
                    to[k * to_line + j] = source[j * source_line + k]
        for k in range(whole_rows, rows):
            for j in range(columns):
                to[k * to_line + j] = source[j * source_line + k]

    return c_function(types.void(*[pointer] * 2, *[types.int64] * 4), transpose)


def has_own_products(dtype: str) -> bool:
    """Whether the library has matrix products of this dtype on this CPU; int32 accumulates int8."""
    return dtype == "int32" or has_products_of_floats(dtype)


def has_products_of_floats(dtype: str) -> bool:
    """Whether the library has float products of this dtype on this CPU: of matrices, of a right
    operand read through offsets, and of images."""
    return dtype in DTYPES and bool(tile_shapes(dtype))


@cache
def _load_part(name: str, dtype: str) -> None:
    """Builds a library function and registers its symbol."""
    shapes = tile_shapes(dtype)
    code = load_or_build(f"{name} {shapes}", partial(PARTS[name], shapes))
    llvm.add_symbol(f"structir_{name}_{dtype}", code.addresses[0])


@cache
def _load_panels(dtype: str) -> None:
    shapes = tile_shapes(dtype)
    load_tiles(f"structir_panel_{dtype}", shapes, f"tiles {shapes}", TileFunction)


@cache
def _load_paired_panels(dtype: str) -> None:
    shapes = paired_shapes(dtype)
    load_tiles(f"structir_paired_panel_{dtype}", shapes, f"paired tiles {shapes}", TileFunction)


@cache
def _load_transpose(dtype: str) -> None:
    shape, name = tile_shapes(dtype)[0], f"structir_transpose_{dtype}"
    _load_text(f"transpose {shape}", name, partial(_transpose_text, shape, name))


@cache
def _load_windows_panel(dtype: str) -> None:
    shapes, name = tile_shapes(dtype), f"structir_windows_panel_{dtype}"
    text = partial(tiles_text, name, shapes, partial(TileFunction, windows=True))
    _load_text(f"windows tiles {shapes}", name, text)


@cache
def _load_cut_windows_panel(dtype: str) -> None:
    shapes, name = cut_shapes(dtype), f"structir_cut_windows_panel_{dtype}"
    text = partial(tiles_text, name, shapes, partial(TileFunction, windows=True, cut=True))
    _load_text(f"cut windows tiles {shapes}", name, text)


@cache
def _load_windows_product(dtype: str) -> None:
    shapes = tile_shapes(dtype)
    code = load_or_build(f"windows product {shapes}", partial(_build_windows_product, shapes))
    llvm.add_symbol(f"structir_windows_product_{dtype}", code.addresses[0])


@cache
def _load_pixel_product(dtype: str) -> None:
    shapes, name = tile_shapes(dtype), f"structir_pixel_product_{dtype}"
    block = terms_at_once(shapes)
    _load_text(f"pixels {shapes} {block}", name, partial(pixel_tiles_text, shapes, name, block))


def _load_text(key: str, symbol: str, text: Callable[[], str]) -> None:
    """Builds a library function from LLVM IR and registers its symbol."""
    code = load_or_build(key, lambda: compile_ir(text(), [symbol]))
    llvm.add_symbol(symbol, code.addresses[0])


def panels_at_once(dtype: str) -> int:
    """Returns the number of weight panels that one pass over an image uses."""
    return pixel_registers(tile_shapes(dtype))


PARTS: dict[str, Callable[[tuple[TileShape, ...]], Loaded]] = {
    "product": _build_product,
    "packed_product": _build_packed_product,
    "paired_product": _build_paired_product,
    "packing": _build_packing,
    "turning": _build_transpose,
}


LOADERS: dict[str, Callable[[str], None]] = {
    **{name: partial(_load_part, name) for name in PARTS},
    "panel": _load_panels,
    "paired_panel": _load_paired_panels,
    "transpose": _load_transpose,
    "windows_panel": _load_windows_panel,
    "cut_windows_panel": _load_cut_windows_panel,
    "windows_product": _load_windows_product,
    "pixel_product": _load_pixel_product,
}
symbol_builders |= {
    f"structir_{name}_{dtype}": partial(load, dtype)
    for name, load in LOADERS.items()
    for dtype in DTYPES
}
symbol_builders |= {
    row_name(f"structir_{name}_{dtype}"): partial(LOADERS[name], dtype)
    for name in ("panel", "paired_panel")
    for dtype in DTYPES
}
