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
from structir.backend.cpu.objects import built
from structir.backend.cpu.packed_products import load_tiles, packed_product
from structir.backend.cpu.panels import ALIGNMENT, panel_widths

PANEL = "structir_integer_panel"


@cache
def has_integer_products() -> bool:
    """True: the library has products of small integers everywhere; building it."""
    shapes, group = integer_shapes(), grouping()
    key, kinds = f"{shapes} {group}", (types.int8, types.int32)
    load_tiles(PANEL, shapes, f"integer tiles {key}", partial(IntegerTile, group=group))
    build = partial(packed_product, PANEL, shapes, kinds, HEAD, group.terms)
    llvm.add_symbol(
        "structir_packed_product_int8", built(f"integer product {key}", build).addresses[0]
    )
    return True


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
