"""Right operands of products in panels: as many columns side by side as a tile is wide, all terms.

A panel of `w` columns from column `j` on starts `j * terms` elements into the packed operand. The
widths are those of the tiles: the widest as long as they are filled well, narrower ones at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from structir.backend.cpu.tiles import TileShape, tile_shapes
from structir.backend.math.options import Number

ALIGNMENT = 64


def lanes_of(dtype: str) -> int:
    """The columns of the narrowest panel."""
    return tile_shapes(dtype)[0].lanes


def panel_registers(left: Number, lanes: Number, most: Number) -> Number:
    """How many registers across the next panel is, given how many columns are left."""
    if left <= lanes:
        return 1
    if left <= 2 * lanes or (3 * lanes < left <= 4 * lanes):
        return 2
    return most


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """A matrix in panels, filled up with zeros, on a boundary of a cache line."""
    return _in_panels(matrix, panel_widths(matrix.shape[1], tile_shapes(matrix.dtype.name)))


def packed_narrow(matrix: NDArray[Any]) -> NDArray[Any]:
    """The same in panels one register wide."""
    return _in_panels(matrix, narrow_widths(matrix.shape[1], matrix.dtype.name))


def narrow_widths(columns: int, dtype: str) -> list[int]:
    """The widths of panels one register wide."""
    lanes = lanes_of(dtype)
    return [lanes] * -(-columns // lanes)


def _in_panels(matrix: NDArray[Any], widths: list[int]) -> NDArray[Any]:
    terms, at = matrix.shape[0], 0
    made = _aligned(terms * sum(widths), matrix.dtype)
    for width in widths:
        panel = made[at * terms : (at + width) * terms].reshape(terms, width)
        own = matrix[:, at : at + width]
        panel[:, : own.shape[1]] = own
        panel[:, own.shape[1] :] = 0
        at += width
    return made


def padded_columns(columns: Any, lanes: int) -> Any:
    """The columns of a packed operand: the registers that hold them, all full."""
    return (columns + lanes - 1) // lanes * lanes


def panel_widths(columns: int, shapes: tuple[TileShape, ...]) -> list[int]:
    """The widths of the panels that hold so many columns."""
    lanes, most, found, left = shapes[0].lanes, len(shapes), list[int](), columns
    while left > 0:
        found.append(lanes * panel_registers(left, lanes, most))
        left -= found[-1]
    return found


def _aligned(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    room = np.empty(count * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + count * dtype.itemsize].view(dtype)
