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

from structir.targets.cpu.arithmetic import ElementPointer, FunctionCode, Predicate, Word
from structir.targets.cpu.code_generation import compile_ir, load_function, scalar_passes
from structir.targets.cpu.line_tiles import AHEAD, LINES, LONG, LONGEST, LineTile
from structir.targets.cpu.objects import load_or_build, symbol_builders
from structir.targets.cpu.packed_layout import (
    ROW_BLOCK,
    TERM_BLOCK,
    beside_name,
    copy_lines,
    copy_panels,
    each_panel,
    equal_panels,
    fill_panel,
    fill_with_zeros,
    load_tiles,
    packed_product_text,
    panel_registers,
    prefetched,
    selected,
    tiles_text,
    write_transpose,
)
from structir.targets.cpu.pixel_tiles import pixel_registers, pixel_tiles_text, terms_at_once
from structir.targets.cpu.tiles import (
    CACHE_LINE,
    OrderedTile,
    TileFunction,
    TileShape,
    cut_shapes,
    few_rows_shapes,
    paired_shapes,
    panel_shapes,
    tile_shapes,
)

DTYPES = ("float32", "float64")
ORDERED = "ordered_panel"  # tiles that add products term by term,
FEW_ORDERED_ROWS = 4  # but up to this, lines of the right operand are added one by one
FEW_ROWS = 8  # up to this, a left operand is not transposed
UNPACKED_ROWS = (16, 32)  # up to this, a panel is not packed: with AVX2, and with AVX-512,
LINE_ROWS = (64, 32)  # up to this, if there are more terms, some lines are read at once;
UNPACKED_TERMS = 128  # which does not pack so few terms either;
MORE_UNPACKED = (128, 256)  # with AVX2, up to so many rows and terms: its lines stay in L1
WIDEST_PANEL = 48 * TERM_BLOCK  # elements of scratch memory of a product
LEFT_ROWS, LEFT_TERMS = 96, 256  # of a block of a transposed left operand, in half of that memory
STRIP = 4096  # bytes of the left operand that stay in L1 while more panels are read than these,
FEW_PANELS = 4  # so that lines of the result are written in long runs


def most_in_lines(terms: Any, most: int, select: Callable[[Any, Any, Any], Any] = selected) -> Any:
    """Returns the most rows of products that read contiguous lines in place, some at once, for
    tiles of up to so many registers. `terms` is an integer, or a number of code."""
    is_wide = most > 2
    return select(terms > MORE_UNPACKED[-1], LINE_ROWS[is_wide], UNPACKED_ROWS[is_wide])


def packs_panels(rows: Any, terms: Any, most: int) -> Any:
    """Whether panels of contiguous columns are packed, for tiles of up to so many registers: few
    lines stay in the first-level cache, and few rows read them once or twice. `rows` and `terms`
    are integers, or numbers of code."""
    if most > 2:
        return (rows > UNPACKED_ROWS[-1]) & (terms > UNPACKED_TERMS)
    more_rows, more_terms = MORE_UNPACKED
    return (rows > UNPACKED_ROWS[0]) & ((rows > more_rows) | (terms > more_terms))


def pass_panels(
    code: FunctionCode,
    shapes: tuple[TileShape, ...],
    left: tuple[ElementPointer, Word, Word],
    right: tuple[ElementPointer, Word, Word],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word],
    memory: tuple[ElementPointer, Word],
    tiles: str,
) -> None:
    """Emits the sums of a block of terms in some rows of the result. Some panels of the right
    operand are packed together in `memory`: a pointer and a number of elements. `tiles` is the name
    of the tile functions."""
    b, b_row, b_column = right
    rows, n, terms = sizes
    panel, room = memory
    lanes, most, column = shapes[0].lanes, len(shapes), code.cell(0)
    is_line = b_column.equals(1)
    packs = b_column.differs(1) | packs_panels(rows, terms, most)
    with code.repeat(lambda: column.value < n):
        first = column.value
        registers = panel_registers(n - first, lanes, most, code.choice)
        width = registers * lanes
        columns, lines = code.smaller(width, n - first), b.at(first * b_column)
        together = code.cell(equal_panels(n - first, lanes, most, code.choice))
        with code.when((together.value > 1).name):  # a division takes as long as a small product
            most_panels = code.larger(room // (width * terms), 1)
            together.set(code.smaller(most_panels, together.value))
        many = together.value
        is_packed = code.cell(1)
        lengths = (terms, columns, width, b_row)
        with code.cases() as when:
            with when((columns < width) & is_line):
                copy_lines(code, panel, lines, lengths, lanes)
            with when(packs & is_line & registers.equals(most)):
                copy_panels(code, panel, lines, (terms, many, b_row), shapes[-1])
            with when(packs):
                for p in code.each(0, many):
                    to, source = panel.at(p * width * terms), lines.at(p * width * b_column)
                    fill_panel(code, to, source, (*lengths, b_column), shapes[0])
            with when(None):
                is_packed.set(0)
        panels = (lines, b_row, panel, is_packed.value.differs(0))
        panel_sizes = (rows, registers, columns, terms, many)
        into = (out[0].at(first), *out[1:])
        pass_rows(code, shapes, left, panels, into, panel_sizes, tiles)
        column.set(first + many * width)


def pass_rows(
    code: FunctionCode,
    shapes: tuple[TileShape, ...],
    left: tuple[ElementPointer, Word, Word],
    right: tuple[ElementPointer, Word, ElementPointer, Predicate],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word, Word, Word],
    tiles: str,
) -> None:
    """Emits the sums of some panels, block by block of rows, each of which reads all panels.

    `right` is the lines of the panels, the distance of lines, the packed panels, and whether these
    are read. `sizes` are the rows, the registers, columns and terms of a panel, and the number of
    panels.
    """
    (a, a_row, a_column), (lines, b_row, panel, is_packed), (c, c_row, adds) = left, right, out
    rows, registers, columns, terms, many = sizes
    width, height, dtype = registers * shapes[0].lanes, shapes[-1].rows[0], shapes[0].dtype
    name = f"structir_{tiles}_{dtype}"
    together = code.cell(ROW_BLOCK)
    in_strips = is_packed & (many > FEW_PANELS) & (terms > MORE_UNPACKED[-1])
    with code.when(in_strips.name):
        strips = (rows * terms + (STRIP // a.bytes - 1)) // (STRIP // a.bytes)
        together.set((rows + (strips * height - 1)) // (strips * height) * height)
    step, parts = code.choice(is_packed, width, b_row), code.choice(is_packed, 0, 1)
    for i0 in code.each(0, rows, together.value):
        some = code.smaller(rows - i0, together.value)
        block = (a.at(i0 * a_row), a_row, a_column)
        for p in code.each(0, many):
            source, to = lines.at(p * width), c.at(i0 * c_row + p * width)
            start = code.choice_of_pointers(is_packed, panel.at(p * width * terms), source)
            soon = source.at(width + (CACHE_LINE // a.bytes - 1))  # at any alignment
            tile = (start, step, to, c_row, terms, columns, adds)
            code.call_symbol(name, *block, *tile, registers, some, parts, soon, b_row)


def pass_lines(
    code: FunctionCode,
    shape: TileShape,
    left: tuple[ElementPointer, Word, Word],
    right: tuple[ElementPointer, Word],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word],
    following: ElementPointer,
) -> None:
    """Emits the sums of a block of lines in few rows of the result; the number of columns is a
    multiple of a tile's.

    `following` is the next block. Tiles prefetch it in the order of memory, or its lines together
    if they are parts of longer ones; the only tile of long lines prefetches what it reads next.
    """
    (lines, b_row), (c, c_row, adds) = right, out
    rows, columns, terms = sizes
    is_long = (rows <= shape.rows[0]) & (columns >= LONG)
    width, in_order = Word(code, str(shape.columns)), b_row.equals(columns)
    parts, _, step = prefetched(code, following, width, rows, shape)
    parts = code.choice(in_order, parts, 1)
    step, along = code.choice(in_order, step, b_row), code.choice(in_order, step * terms, width)
    step, along = code.choice(is_long, b_row, step), code.choice(is_long, width, along)
    soon = code.choice_of_pointers(is_long, lines.at(AHEAD // lines.bytes), following)
    tile = (*left, lines, b_row, c, c_row, terms, columns, adds, shape.vectors, rows)
    code.call_symbol(f"structir_lines_{shape.dtype}", *tile, parts, soon, step, along)


def sum_lines(
    code: FunctionCode,
    shapes: tuple[TileShape, ...],
    left: tuple[ElementPointer, Word, Word],
    right: tuple[ElementPointer, Word],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word],
    memory: tuple[ElementPointer, Word],
) -> None:
    """Emits the sums of a block of terms in few rows of the result, whose right operand has
    contiguous lines: some lines at once. As in panels, terms are added in order: a row has the same
    bits in any part."""
    (a, a_row, a_column), (b, b_row), (c, c_row, adds) = left, right, out
    (rows, n, k), width = sizes, shapes[-1].columns
    for j0 in code.each(0, n, LONGEST):
        columns = code.smaller(n - j0, LONGEST)
        inside = columns - columns % width
        for start in code.each(0, k, LINES):
            terms = code.smaller(k - start, LINES)
            more = code.choice((start > 0) | adds.differs(0), 1, 0)
            from_left = (a.at(start * a_column), a_row, a_column)
            lines, to = b.at(start * b_row + j0), c.at(j0)
            with code.when((inside > 0).name):
                is_last = (start + LINES) >= k
                following = code.choice_of_pointers(is_last, lines, lines.at(b_row * LINES))
                from_right, into = (lines, b_row), (to, c_row, more)
                sizes = (rows, inside, terms)
                pass_lines(code, shapes[-1], from_left, from_right, into, sizes, following)
            rest = (lines.at(inside), b_row, Word(code, "1"))
            into = (to.at(inside), c_row, more)
            sizes = (rows, columns - inside, terms)
            pass_panels(code, shapes, from_left, rest, into, sizes, memory, "panel")


def _product(shapes: tuple[TileShape, ...], symbol: str, tiles: str = "panel") -> str:
    """Returns the product of unpacked operands, which packs panels of the right one as needed.

    Blocks of a transposed left operand are transposed: its columns would evict each other. With
    ordered `tiles`, the terms are added to the result in their order."""
    code, dtype = FunctionCode(symbol), shapes[0].dtype
    a, b, c = code.pointers(dtype, dtype, dtype)
    m, n, k, a_row, a_column, b_row, b_column, c_row = code.integers(8)
    (panel,) = code.pointers(dtype)
    accumulates = tiles == ORDERED
    if not accumulates:
        with code.when((k <= 0).name):
            fill_with_zeros(code, c, m, n, c_row)
    turned = a_row.equals(1) & a_column.differs(1) & (m > FEW_ROWS)
    room = code.choice(turned, WIDEST_PANEL - LEFT_ROWS * LEFT_TERMS, WIDEST_PANEL)
    row, column = code.choice(turned, LEFT_TERMS, a_row), code.choice(turned, 1, a_column)
    together = code.choice(turned, LEFT_ROWS, code.larger(m, 1))
    for i0 in code.each(0, m, together):
        rows = code.smaller(m - i0, together)
        most = most_in_lines(k, len(shapes), code.choice)
        in_lines = (rows <= most) & b_column.equals(1)
        whole = TERM_BLOCK if accumulates else code.choice(in_lines, code.larger(k, 1), TERM_BLOCK)
        block = code.choice(turned, LEFT_TERMS, whole)
        for k0 in code.each(0, k, block):
            terms, adds = code.smaller(k - k0, block), code.choice(k0 >= int(not accumulates), 1, 0)
            source, lines = a.at(i0 * a_row + k0 * a_column), panel.at(room)
            with code.when(turned.name):
                name = f"structir_turning_{dtype}"
                code.call_symbol(name, lines, source, rows, terms, LEFT_TERMS, a_column)
            left = (code.choice_of_pointers(turned, lines, source), row, column)
            start, out = b.at(k0 * b_row), (c.at(i0 * c_row), c_row, adds)
            sizes, memory = (rows, n, terms), (panel, room)
            right = (start, b_row, b_column)
            if accumulates:  # there are no tiles of lines that round each operation
                pass_panels(code, shapes, left, right, out, sizes, memory, tiles)
                continue
            with code.cases() as when:
                with when(in_lines):
                    sum_lines(code, shapes, left, (start, b_row), out, sizes, memory)
                with when(None):
                    pass_panels(code, shapes, left, right, out, sizes, memory, tiles)
    return code.text()


def _ordered_product(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the product that is added to the result term by term, with each operation rounded."""
    return _product(shapes, symbol, ORDERED)


def _packed_product(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the product with a packed right operand."""
    return packed_product_text(symbol, f"structir_panel_{shapes[0].dtype}", shapes)


def _paired_product(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the product with panels of at most two registers."""
    dtype = shapes[0].dtype
    return packed_product_text(symbol, f"structir_paired_panel_{dtype}", paired_shapes(dtype))


def _few_rows_product(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the product with the panels of products that often have few rows."""
    dtype = shapes[0].dtype
    return packed_product_text(symbol, f"structir_few_rows_panel_{dtype}", few_rows_shapes(dtype))


def _windows_product(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the product whose right operand has a table with the offset of each term's line."""
    code, dtype = FunctionCode(symbol), shapes[0].dtype
    a, b, c = code.pointers(dtype, dtype, dtype)
    m, n, k, a_row, c_row = code.integers(5)
    (table,) = code.pointers("int64")
    with code.when((k <= 0).name):
        fill_with_zeros(code, c, m, n, c_row)
    blocks = (k + (TERM_BLOCK - 1)) // TERM_BLOCK
    block = (k + blocks - 1) // code.larger(blocks, 1)
    for k0 in code.each(0, k, block):
        terms, adds = code.smaller(block, k - k0), code.choice(k0 > 0, 1, 0)
        left, starts = (a.at(k0), a_row, 1), table.at(k0)
        for j0, registers, width in each_panel(code, n, shapes):
            columns = code.smaller(width, n - j0)
            right = (b.at(j0), starts, c.at(j0), c_row, terms, columns, adds)
            with code.cases() as when:
                with when(columns.equals(width)):
                    whole = f"structir_windows_panel_{dtype}"
                    code.call_symbol(whole, *left, *right, registers, m, 0, b, 0)
                with when(None):
                    cut = f"structir_cut_windows_panel_{dtype}"
                    code.call_symbol(cut, *left, *right, registers, m, 0, b, 0)
    return code.text()


def _packing(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the function that packs a right operand."""
    code, dtype = FunctionCode(symbol), shapes[0].dtype
    panels, b = code.pointers(dtype, dtype)
    k, n, b_row, b_column = code.integers(4)
    for j0, _, width in each_panel(code, n, shapes):
        sizes = (k, code.smaller(width, n - j0), width, b_row, b_column)
        fill_panel(code, panels.at(j0 * k), b.at(j0 * b_column), sizes, shapes[0])
    return code.text()


def _transpose(shapes: tuple[TileShape, ...], symbol: str) -> str:
    """Returns the matrix transpose: squares in registers, edges element by element."""
    code, dtype, lanes = FunctionCode(symbol), shapes[0].dtype, shapes[0].lanes
    to, source = code.pointers(dtype, dtype)
    rows, columns, to_line, source_line = code.integers(4)
    whole_rows, whole_columns = rows.rounded_down(lanes), columns.rounded_down(lanes)
    block = 2 * lanes  # squares that share cache lines are processed together

    for first in code.each(0, whole_rows, block):
        last = code.smaller(first + block, whole_rows)
        for j in code.each(0, whole_columns, lanes):
            for i in code.each(first, last, lanes):
                square = (to.at(i * to_line + j), to_line, source.at(j * source_line + i))
                code.call_symbol(f"structir_transpose_{dtype}", *square, source_line)
        for j in code.each(whole_columns, columns):
            column, below = source.at(j * source_line), to.at(j)
            for i in code.each(first, last):
                below.at(i * to_line).store(column.at(i).load())
    for i in code.each(whole_rows, rows):
        line, across = to.at(i * to_line), source.at(i)
        for j in code.each(0, columns):
            line.at(j).store(across.at(j * source_line).load())
    return code.text()


def _transpose_text(shape: TileShape, name: str) -> str:
    """Returns LLVM IR of the in-register transpose of a square."""
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    element = ir.FloatType() if shape.dtype == "float32" else ir.DoubleType()
    write_transpose(module, name, element, shape.lanes)
    return str(module)


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
    shapes, symbol = tile_shapes(dtype), f"structir_{name}_{dtype}"
    text = partial(PARTS[name], shapes, symbol)
    load_function(f"{name} {shapes}", symbol, text, scalar_passes)


@cache
def _load_panels(dtype: str) -> None:
    shapes = panel_shapes(dtype)
    load_tiles(f"structir_panel_{dtype}", shapes, f"tiles {shapes}", TileFunction)


@cache
def _load_ordered_panels(dtype: str) -> None:
    shapes, name = tile_shapes(dtype), f"structir_{ORDERED}_{dtype}"
    text = partial(tiles_text, name, shapes, OrderedTile, prefetching=True)
    _load_text(f"ordered tiles {shapes}", name, text)


@cache
def _load_lines(dtype: str) -> None:
    shapes, name = tile_shapes(dtype)[-1:], f"structir_lines_{dtype}"
    text = partial(tiles_text, name, shapes, LineTile, prefetching=True)
    _load_text(f"lines {shapes}", name, text)


@cache
def _load_paired_panels(dtype: str) -> None:
    shapes = paired_shapes(dtype)
    load_tiles(f"structir_paired_panel_{dtype}", shapes, f"paired tiles {shapes}", TileFunction)


@cache
def _load_few_rows_panels(dtype: str) -> None:
    shapes, name = few_rows_shapes(dtype), f"structir_few_rows_panel_{dtype}"
    load_tiles(name, shapes, f"tiles of few rows {shapes}", TileFunction)


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


PARTS: dict[str, Callable[[tuple[TileShape, ...], str], str]] = {
    "product": _product,
    "ordered_product": _ordered_product,
    "packed_product": _packed_product,
    "paired_product": _paired_product,
    "few_rows_product": _few_rows_product,
    "windows_product": _windows_product,
    "packing": _packing,
    "turning": _transpose,
}


LOADERS: dict[str, Callable[[str], None]] = {
    **{name: partial(_load_part, name) for name in PARTS},
    "panel": _load_panels,
    ORDERED: _load_ordered_panels,
    "lines": _load_lines,
    "paired_panel": _load_paired_panels,
    "few_rows_panel": _load_few_rows_panels,
    "transpose": _load_transpose,
    "windows_panel": _load_windows_panel,
    "cut_windows_panel": _load_cut_windows_panel,
    "pixel_product": _load_pixel_product,
}
symbol_builders |= {
    f"structir_{name}_{dtype}": partial(load, dtype)
    for name, load in LOADERS.items()
    for dtype in DTYPES
}
symbol_builders |= {
    beside_name(f"structir_{name}_{dtype}"): partial(LOADERS[name], dtype)
    for name in ("panel", "paired_panel", "few_rows_panel")
    for dtype in DTYPES
}
