"""The packed layout of right operands, panels of all terms by as many columns as a tile is wide;
the code that packs them, and that of products with them, of floats and of small integers; and
in-register transposes of squares, with as many lines as a register has lanes.

The panel that begins at column `j` is at offset `j * terms`. Panels have the widths of the tiles:
the widest, then narrower ones at the end if they leave fewer lanes unused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from structir.targets.cpu.arithmetic import ElementPointer, FunctionCode, Predicate, Word
from structir.targets.cpu.code_generation import compile_ir
from structir.targets.cpu.objects import load_or_build
from structir.targets.cpu.tiles import (
    MOST_PANELS,
    PanelFunction,
    TileFunction,
    TileShape,
    few_rows_shapes,
    paired_shapes,
    panel_shapes,
    tile_shapes,
)

WORD, INDEX = ir.IntType(64), ir.IntType(32)
ALIGNMENT = 64
AHEAD = 8  # prefetch distance in lines,
LINE = 16  # and step in elements, at least a cache line
MOST_PARTS = 4  # tiles of a panel that share its prefetches
REGISTERS = 16  # of vectors; AVX-512 has twice as many


def lanes_of(dtype: str) -> int:
    """Returns the width of the narrowest panel: the lanes of a register."""
    return tile_shapes(dtype)[0].lanes


def selected(test: Any, yes: Any, no: Any) -> Any:
    """Returns one of two values."""
    return yes if test else no


def panel_registers(
    left: Any, lanes: int, most: int, select: Callable[[Any, Any, Any], Any] = selected
) -> Any:
    """Returns the width of the next panel in registers, for a number of remaining columns: an
    integer, or a number of code, of which `select` selects."""
    two = (left <= 2 * lanes) | ((left > 3 * lanes) & (left <= 4 * lanes))
    return select(left <= lanes, 1, select(two, 2, most))


def equal_panels(
    columns: Any, lanes: int, most: int, select: Callable[[Any, Any, Any], Any] = selected
) -> Any:
    """Returns the number of panels from the next one on that are full and of the greatest width, at
    least 1: an integer, or a number of code, of which `select` selects."""
    width = lanes * most
    whole = columns // width
    rest = columns - whole * width
    is_split = (rest > 0) & (rest <= (lanes if most > 2 else 0))  # with the last of them, in halves
    count = whole - select(is_split, 1, 0)
    return select(count > 1, count, 1)


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix (terms, columns) into panels, padded with zeros and aligned to a cache
    line."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], panel_shapes(matrix.dtype.name)))


def packed_narrow(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into panels one register wide."""
    return _in_panels(matrix, narrow_widths(matrix.shape[1], matrix.dtype.name))


def packed_paired(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into panels of at most two registers."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], paired_shapes(matrix.dtype.name)))


def packed_for_few_rows(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into the panels of products that often have few rows."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], few_rows_shapes(matrix.dtype.name)))


def narrow_widths(columns: int, dtype: str) -> list[int]:
    """Returns the widths of panels one register wide."""
    lanes = lanes_of(dtype)
    return [lanes] * -(-columns // lanes)


def _in_panels(matrix: NDArray[Any], widths: list[int]) -> NDArray[Any]:
    terms, at = matrix.shape[0], 0
    panels = _aligned(terms * sum(widths), matrix.dtype)
    for width in widths:
        panel = panels[at * terms : (at + width) * terms].reshape(terms, width)
        part = matrix[:, at : at + width]
        panel[:, : part.shape[1]] = part
        panel[:, part.shape[1] :] = 0
        at += width
    return panels


def padded_columns(columns: Any, lanes: int) -> Any:
    """Rounds a number of columns up to whole registers."""
    return (columns + lanes - 1) // lanes * lanes


def panel_widths(columns: int, shapes: tuple[TileShape, ...]) -> list[int]:
    """Returns the widths of the panels of some columns."""
    lanes, most, widths, left = shapes[0].lanes, len(shapes), list[int](), columns
    while left > 0:
        widths.append(lanes * panel_registers(left, lanes, most))
        left -= widths[-1]
    return widths


def _aligned(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    memory = np.empty(count * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + count * dtype.itemsize].view(dtype)


def each_panel(
    code: FunctionCode, columns: Word, shapes: tuple[TileShape, ...], start: Word | int = 0
) -> Iterator[tuple[Word, Word, Word]]:
    """Emits a loop over the panels of some columns: the first column of each, its width in
    registers, and in columns."""
    lanes, next_column = shapes[0].lanes, code.cell(start)
    with code.repeat(lambda: next_column.value < columns):
        first = next_column.value
        registers = panel_registers(columns - first, lanes, len(shapes), code.choice)
        width = registers * lanes
        yield first, registers, width
        next_column.set(first + width)


def copy_lines(
    code: FunctionCode,
    panel: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word, Word],
    lanes: int,
) -> None:
    """Packs lines narrower than the panel, padded with zeros, with a masked vector at the end.

    `sizes` are the terms, the columns, the width of the panel, and the distance of lines. Results
    of the padding are never stored, but a product with subnormal numbers, as uninitialized memory
    may hold, takes a hundred cycles.
    """
    terms, columns, width, row = sizes
    whole = columns.rounded_down(lanes)
    last = code.lanes_below(columns - whole, lanes)
    for t in code.each(0, terms):
        to, line = panel.at(t * width), source.at(t * row)
        copy_registers(code, to, line, whole, lanes)
        to.at(whole).copy_part_of_vector(line.at(whole), last, lanes)
        for j in code.each(whole + lanes, width, lanes):
            to.at(j).clear_vector(lanes)


def copy_registers(
    code: FunctionCode, to: ElementPointer, source: ElementPointer, count: Word, lanes: int
) -> None:
    """Copies a multiple of as many elements as a register has lanes."""
    for j in code.each(0, count, lanes):
        to.at(j).copy_vector(source.at(j), lanes)


def fill_panel(
    code: FunctionCode,
    panel: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word, Word, Word],
    shape: TileShape,
) -> None:
    """Packs a panel, padded with zeros to the width of a tile; contiguous columns are transposed in
    registers.

    `sizes` are the terms, the columns, the width of the panel, and the distances of lines and of
    columns.
    """
    terms, columns, width, row, column = sizes
    lanes = shape.lanes
    turned = code.cell(0)
    with code.when((row.equals(1) & column.differs(1) & columns.equals(width)).name):
        turned.set(terms.rounded_down(lanes))
        for t in code.each(0, turned.value, lanes):
            for j in code.each(0, width, lanes):
                to, square = panel.at(t * width + j), source.at(t + j * column)
                code.call_symbol(f"structir_transpose_{shape.dtype}", to, width, square, column)
    done = turned.value
    rest = (terms - done, columns, width, row, column)
    _copy_panel(code, panel.at(done * width), source.at(done * row), rest, lanes)


def _copy_panel(
    code: FunctionCode,
    panel: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word, Word, Word],
    lanes: int,
) -> None:
    """Packs a panel: full contiguous lines by registers, others element by element."""
    terms, columns, width, row, column = sizes

    def plain() -> None:
        for t in code.each(0, terms):
            copy_registers(code, panel.at(t * width), source.at(t * row), width, lanes)

    def padded() -> None:
        for t in code.each(0, terms):
            to, line = panel.at(t * width), source.at(t * row)
            for j in code.each(0, columns):
                to.at(j).store(line.at(j * column).load())
            for j in code.each(columns, width):
                to.at(j).store("0.0")

    code.choose((column.equals(1) & columns.equals(width)).name, plain, padded)


def copy_panels(
    code: FunctionCode,
    panels: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word],
    shape: TileShape,
) -> None:
    """Packs full panels, as wide as the tiles of a shape, line by line: lines are read in longer
    runs.

    `sizes` are the terms, the number of panels, and the distance of lines. Consecutive lines are on
    different pages, which hardware prefetchers do not cross.
    """
    (terms, count, row), width = sizes, shape.columns
    for t in code.each(0, terms):
        for p in code.each(0, count):
            to, line = panels.at((p * terms + t) * width), source.at(t * row + p * width)
            for part in range(0, width, LINE):
                line.at(row * AHEAD + part).prefetch()
            for j in range(0, width, shape.lanes):
                to.at(j).copy_vector(line.at(j), shape.lanes)


ROW_BLOCK = 256  # rows of the left operand per panel, which stay in L2
TERM_BLOCK = 1024  # terms per block of a reduction


def load_tiles(
    name: str, shapes: tuple[TileShape, ...], key: str, tile: Callable[..., TileFunction]
) -> None:
    """Builds the tile functions and registers two symbols.

    `name` processes all rows of one panel; `name` with `_beside` few rows of several panels.
    """
    names = [name, beside_name(name)]
    text = partial(tiles_text, name, shapes, tile, in_panels=True)
    code = load_or_build(key, lambda: compile_ir(text(), names))
    for symbol, address in zip(names, code.addresses, strict=True):
        llvm.add_symbol(symbol, address)


def beside_name(name: str) -> str:
    """Returns the symbol of the function of few rows of several panels."""
    return f"{name}_beside"


def panels_of_rows(shape: TileShape) -> dict[int, int]:
    """Returns the number of the widest panels that one tile of few rows reads, by its rows: with
    few accumulators for one panel, multiply-adds would wait for each other."""
    most = max([s.rows[0] * s.vectors for s in (shape, *tile_shapes(shape.dtype))])
    is_wide = shape.lanes * np.dtype(shape.dtype).itemsize == ALIGNMENT
    registers = REGISTERS * 2 if is_wide else REGISTERS
    operands = 2 if shape.dtype == "int32" else 1  # and products before they are added
    result = {1: MOST_PANELS}
    for rows in range(2, shape.rows[0]):
        for count in (2, MOST_PANELS):
            totals = rows * shape.vectors * count
            if totals <= most and totals + rows + operands <= registers:
                result[rows] = count
    return result


def tiles_text(
    name: str,
    shapes: tuple[TileShape, ...],
    tile: Callable[..., TileFunction],
    prefetching: bool = False,
    in_panels: bool = False,
) -> str:
    """Returns the tile functions of all sizes as LLVM IR. With `prefetching`, the widest ones also
    exist with prefetches; with `in_panels`, there are some of few rows of several panels, and
    higher ones with prefetches."""
    module = ir.Module(name)
    module.triple = llvm.get_process_triple()
    tiles = {(s.vectors, r): tile(module, s, r) for s in shapes for r in s.rows}
    widest, more = shapes[-1], dict[tuple[int, int], TileFunction]()
    beside = dict[int, TileFunction]()
    counts = panels_of_rows(widest) if in_panels else {}
    for rows in widest.rows if prefetching or in_panels else ():
        if rows not in counts:
            more[widest.vectors, rows] = tile(module, widest, rows, prefetching=True)
    for rows, panels in counts.items():
        shape = attrs.evolve(widest, vectors=widest.vectors * panels)
        own_name = f"{beside_name(name)}_{rows}"
        beside[rows] = tile(module, shape, rows, panels=panels, name=own_name)
    for function in [*tiles.values(), *more.values(), *beside.values()]:
        function.write()
    PanelFunction(module, tiles, name, more).write()
    if in_panels:
        _write_beside(module, beside_name(name), beside)
    return str(module)


def _write_beside(module: ir.Module, name: str, tiles: dict[int, TileFunction]) -> None:
    """Emits the function of few rows of several panels: a tile's arguments, and the rows."""
    kind = tiles[1].function.function_type
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [*kind.args, WORD]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    *passed, rows = function.args
    for height, tile in tiles.items():
        with builder.if_then(builder.icmp_signed("==", rows, ir.Constant(WORD, height))):
            builder.call(tile.function, passed)
            builder.ret_void()
    builder.ret_void()


def pass_packed_panels(
    code: FunctionCode,
    name: str,
    shapes: tuple[TileShape, ...],
    left: tuple[ElementPointer, Word | int, Word | int],
    right: tuple[ElementPointer, Word, Word],
    out: tuple[ElementPointer, Word, Word],
    sizes: tuple[Word, Word, Word],
    unit: int = 1,
) -> None:
    """Emits the product of a block of rows and terms with all panels.

    The tile functions are those of `load_tiles`. A panel has `size` elements per column, `unit` for
    each term; `start` is the number of those before the first term of the block. `sizes` are rows,
    columns and terms.
    """
    lanes, most = shapes[0].lanes, len(shapes)
    widest, together = lanes * most, panels_of_rows(shapes[-1])
    panels, size, start = right
    c, c_row, adds = out
    rows, n, terms = sizes
    column, count = code.cell(0), Word(code, "0")
    for height, panels_of_height in together.items():
        count = code.choice(rows.equals(height), panels_of_height, count)
    wide = count * widest

    def are_wide() -> Predicate:
        rest = n - column.value
        last = panel_registers(rest - wide + widest, lanes, most, code.choice)
        is_full: Predicate = last >= most  # the last one is not narrower
        return (count > 0) & (rest >= wide) & is_full

    with code.repeat(are_wide):
        j0 = column.value
        lines = panels.at(j0 * size + start * widest)
        several = (lines, widest, c.at(j0), c_row, terms, wide, adds)
        code.call_symbol(beside_name(name), *left, *several, size * widest, rows)
        column.set(j0 + wide)
    for j0, registers, width in each_panel(code, n, shapes, column.value):
        lines, columns = panels.at(j0 * size + start * width), code.smaller(width, n - j0)
        tile = (lines, width, c.at(j0), c_row, terms, columns, adds)
        soon = prefetched(code, lines.at(width * size), width * unit, rows, shapes[-1])
        code.call_symbol(name, *left, *tile, registers, rows, *soon)


def prefetched(
    code: FunctionCode, soon: ElementPointer, elements: Word, rows: Word, shape: TileShape
) -> tuple[Word, ElementPointer, Word]:
    """Returns the last arguments of a panel function: its first tiles prefetch as much as it has,
    `elements` of each term, in parts, so that memory is busy all the time. Of each term a part is
    one cache line: the CPU's own prefetchers follow it, and are slower if all lines are asked for.
    A last tile of few rows is too short for a part.
    """
    tallest = shape.rows[0]
    parts = code.larger(code.smaller((rows + tallest // 2) // tallest, MOST_PARTS), 1)
    return parts, soon, elements // parts


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


def write_transpose(module: ir.Module, name: str, element: Any, lanes: int) -> None:
    """Emits name(to, to_line, source, source_line): to[t, j] = source[j, t], for `lanes` lines.

    `to_line` and `source_line` are strides in elements.
    """
    pointer, vector = element.as_pointer(), ir.VectorType(element, lanes)
    kind = ir.FunctionType(ir.VoidType(), [pointer, WORD, pointer, WORD])
    function = ir.Function(module, kind, name)
    to, to_line, source, source_line = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def place(start: Any, step: Any, number: int) -> Any:
        address = builder.gep(start, [builder.mul(step, ir.Constant(WORD, number))])
        return builder.bitcast(address, vector.as_pointer())

    lines = [builder.load(place(source, source_line, k), align=4) for k in range(lanes)]
    for k, line in enumerate(transpose_lines(builder, lines)):
        builder.store(line, place(to, to_line, k), align=4)
    builder.ret_void()


def transpose_lines(builder: Any, lines: list[Any]) -> list[Any]:
    """Emits the transpose of lines in registers; returns their columns, consecutively.

    The number of lines is the number of lanes divided by a power of two.
    """
    count = left = len(lines)
    while left > 1:  # log2(number of lines) rounds
        lines = [line for k in range(count // 2) for line in _interleaved(builder, lines, k)]
        left //= 2
    return lines


def _interleaved(builder: Any, lines: list[Any], k: int) -> list[Any]:
    """Interleaves line `k` with the line half of all lines later; returns two lines."""
    first, second = lines[k], lines[k + len(lines) // 2]
    lanes = first.type.count
    orders = [
        [(start + i // 2) + (i % 2) * lanes for i in range(lanes)] for start in (0, lanes // 2)
    ]
    kind = ir.VectorType(INDEX, lanes)
    return [builder.shuffle_vector(first, second, ir.Constant(kind, order)) for order in orders]
