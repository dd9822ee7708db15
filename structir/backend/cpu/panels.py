"""The packed layout of right operands: panels of all terms by as many columns as a tile is wide.

The panel that begins at column `j` is at offset `j * terms`. Panels have the widths of the tiles:
the widest, then narrower ones at the end if they leave fewer lanes unused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structir.backend.cpu.tiles import TileShape, paired_shapes, tile_shapes
from structir.backend.math.options import Number

ALIGNMENT = 64


def lanes_of(dtype: str) -> int:
    """Returns the width of the narrowest panel: the lanes of a register."""
    return tile_shapes(dtype)[0].lanes


def panel_registers(left: Number, lanes: Number, most: Number) -> Number:
    """Returns the width of the next panel in registers, for a number of remaining columns."""
    if left <= lanes:
        return 1
    if left <= 2 * lanes or (3 * lanes < left <= 4 * lanes):
        return 2
    return most


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix (terms, columns) into panels, padded with zeros and aligned to a cache
    line."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], tile_shapes(matrix.dtype.name)))


def packed_narrow(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into panels one register wide."""
    return _in_panels(matrix, narrow_widths(matrix.shape[1], matrix.dtype.name))


def packed_paired(matrix: NDArray[Any]) -> NDArray[Any]:
    """Packs a matrix into panels of at most two registers."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], paired_shapes(matrix.dtype.name)))


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
