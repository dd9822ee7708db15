"""Products of rows of int8 with constants of int8, added up in int32.

The constant lies in panels: for each column what its sum starts from, then its terms in groups.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numpy.typing import NDArray

from structir.backend.cpu.c_functions import assembled, c_function
from structir.backend.cpu.integer_tiles import (
    Grouping,
    grouping,
    head_lines,
    integer_shapes,
    integer_tiles_text,
)
from structir.backend.cpu.intrinsics import offset_by
from structir.backend.cpu.objects import Loaded, built
from structir.backend.cpu.panels import ALIGNMENT, panel_registers, panel_widths
from structir.backend.cpu.symbols import extern
from structir.backend.cpu.tiles import TileShape
from structir.backend.math.options import Number, vectorisable

ROW_BLOCK = 256  # rows that pass over one panel: they stay in the second cache
PANEL = "structir_integer_panel"


@cache
def has_integer_products() -> bool:
    """True: the library has products of small integers everywhere; building it."""
    shapes, group = integer_shapes(), grouping()
    key = f"{shapes} {group}"
    tiles = built(
        f"integer tiles {key}",
        lambda: assembled(integer_tiles_text(shapes, group, PANEL), [PANEL]),
    )
    llvm.add_symbol(PANEL, tiles.addresses[0])
    made = built(f"integer product {key}", lambda: _build_product(shapes, group))
    llvm.add_symbol("structir_packed_product_int8", made.addresses[0])
    return True


def _build_product(shapes: tuple[TileShape, ...], group: Grouping) -> Loaded:
    """The product with a right operand that lies in panels."""
    small: Any = types.CPointer(types.int8)  # type: ignore[no-untyped-call]
    total: Any = types.CPointer(types.int32)  # type: ignore[no-untyped-call]
    lanes, most, terms_at_once, head = shapes[0].lanes, len(shapes), group.terms, head_lines(group)
    from_here: Any = offset_by
    registers_for = vectorisable(panel_registers)
    pass_panel = extern(PANEL)

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
        column = (head + (k + terms_at_once - 1) // terms_at_once) * terms_at_once
        for i0 in range(0, m, ROW_BLOCK):
            rows = min(ROW_BLOCK, m - i0)
            left = from_here(a, i0 * a_row)
            j0 = 0
            while j0 < n:
                registers = registers_for(n - j0, lanes, most)
                width = registers * lanes
                panel, out = from_here(panels, j0 * column), from_here(c, i0 * c_row + j0)
                right = (panel, 0, out, c_row, k, min(width, n - j0), 0)
                pass_panel((left, a_row, 1, *right, registers, rows))
                j0 += width

    return c_function(types.void(small, small, total, *[types.int64] * 6), product)


def packed_integers(matrix: NDArray[np.int8]) -> NDArray[np.int8]:
    """A matrix in panels: for each column what the sum starts from, then groups of terms."""
    group, shapes = grouping(), integer_shapes()
    terms, columns = matrix.shape
    lines = -(-terms // group.terms)
    widths = panel_widths(columns, shapes)
    whole = np.zeros((lines * group.terms, sum(widths)), np.int8)
    whole[:terms, :columns] = matrix
    starts = -group.shift * whole.sum(axis=0, dtype=np.int32)
    room = np.empty(whole.size + 4 * len(starts) + ALIGNMENT, np.int8)
    made = room[-room.ctypes.data % ALIGNMENT :][: whole.size + 4 * len(starts)]
    at = place = 0
    for width in widths:
        own = slice(at, at + width)
        grouped = whole[:, own].reshape(lines, group.terms, width).transpose(0, 2, 1)
        for part in (starts[own].view(np.int8), grouped.ravel()):
            made[place : place + part.size] = part
            place += part.size
        at += width
    return made
