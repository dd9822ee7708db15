"""Products of rows of int8 with constants of int8, added up in int32.

The constant lies in panels: for each column what its sum starts from, then its terms in groups.
"""

from __future__ import annotations

from functools import cache, partial

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numpy.typing import NDArray

from structir.backend.cpu.integer_tiles import HEAD, IntegerTile, grouping, integer_shapes
from structir.backend.cpu.objects import built, makers
from structir.backend.cpu.packed_products import load_tiles, packed_product, row_name
from structir.backend.cpu.panels import ALIGNMENT, panel_widths

PANEL = "structir_integer_panel"


@cache
def _load_panels() -> None:
    shapes, group = integer_shapes(), grouping()
    key = f"integer tiles {shapes} {group}"
    load_tiles(PANEL, shapes, key, partial(IntegerTile, group=group))


@cache
def _load_product() -> None:
    shapes, group = integer_shapes(), grouping()
    kinds = (types.int8, types.int32)
    build = partial(packed_product, PANEL, shapes, kinds, HEAD, group.terms)
    code = built(f"integer product {shapes} {group}", build)
    llvm.add_symbol("structir_packed_product_int8", code.addresses[0])


makers |= {
    PANEL: _load_panels,
    row_name(PANEL): _load_panels,
    "structir_packed_product_int8": _load_product,
}


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
