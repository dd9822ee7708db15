"""The packed layout of right operands: panels of all terms by as many columns as a tile is wide.

The panel that begins at column `j` is at offset `j * terms`. Panels have the widths of the tiles:
the widest, then narrower ones at the end if they leave fewer lanes unused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structir.backend.cpu.tiles import TileShape, tile_shapes
from structir.backend.emit.arithmetic import ElementPointer, FunctionCode, Word

ALIGNMENT = 64
MOST_PANELS = 8  # panels that are packed together: each line is read in a longer run
AHEAD = 8  # prefetch distance in lines,
LINE = 16  # and step in elements, at least a cache line


def lanes_of(dtype: str) -> int:
    """Returns the width of the narrowest panel: the lanes of a register."""
    return tile_shapes(dtype)[0].lanes


def _selected(test: Any, yes: Any, no: Any) -> Any:
    return yes if test else no


def panel_registers(
    left: Any, lanes: int, most: int, select: Callable[[Any, Any, Any], Any] = _selected
) -> Any:
    """Returns the width of the next panel in registers, for a number of remaining columns: an
    integer, or a number of code, of which `select` selects."""
    two = (left <= 2 * lanes) | ((left > 3 * lanes) & (left <= 4 * lanes))
    return select(left <= lanes, 1, select(two, 2, most))


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix (terms, columns) into panels, padded with zeros and aligned to a cache
    line."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], tile_shapes(matrix.dtype.name)))


def packed_narrow(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into panels one register wide."""
    return _in_panels(matrix, narrow_widths(matrix.shape[1], matrix.dtype.name))


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
    """Packs lines narrower than the panel with a masked vector at the end.

    `sizes` are the terms, the columns, the width of the panel, and the distance of lines. The
    padding stays uninitialized: results of its columns are never stored.
    """
    terms, columns, width, row = sizes
    whole = columns.rounded_down(lanes)
    for t in code.each(0, terms):
        to, line = panel.at(t * width), source.at(t * row)
        for j in code.each(0, whole, lanes):
            to.at(j).copy_vector(line.at(j), lanes)
        to.at(whole).copy_part_of_vector(line.at(whole), columns - whole, lanes)


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
    _copy_panel(code, panel.at(done * width), source.at(done * row), rest)


def _copy_panel(
    code: FunctionCode,
    panel: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word, Word, Word],
) -> None:
    """Packs a panel element by element."""
    terms, columns, width, row, column = sizes

    def plain() -> None:
        for t in code.each(0, terms):
            for j in code.each(0, width):
                panel.at(t * width + j).store(source.at(t * row + j).load())

    def padded() -> None:
        for t in code.each(0, terms):
            for j in code.each(0, width):
                inside = j < columns
                value = source.at(t * row + code.choice(inside, j, 0) * column).load()
                stored = code.select(inside.name, panel.kind, value, "0.0")
                panel.at(t * width + j).store(stored)

    code.choose((column.equals(1) & columns.equals(width)).name, plain, padded)


def copy_panels(
    code: FunctionCode,
    panels: ElementPointer,
    source: ElementPointer,
    sizes: tuple[Word, Word, Word, Word],
    room: Word,
) -> Word:
    """Packs the next full panels line by line; returns their number of columns.

    `sizes` are the terms, the columns, the width of a panel, and the distance of lines. Consecutive
    lines are on different pages, which hardware prefetchers do not cross.
    """
    terms, columns, width, row = sizes
    most = code.smaller(code.larger(room // (width * terms), 1), MOST_PANELS)
    count = code.smaller(columns // width, most)
    for t in code.each(0, terms):
        for p in code.each(0, count):
            to, line = panels.at((p * terms + t) * width), source.at(t * row + p * width)
            for part in code.each(0, width, LINE):
                line.at(row * AHEAD + part).prefetch()
            for j in code.each(0, width):
                to.at(j).store(line.at(j).load())
    return count * width
