"""Products of int8 rows with packed int8 constants, accumulated in int32.

The constant is packed in panels: the initial accumulator of each column, then groups of terms.
"""

from __future__ import annotations

from functools import cache, partial

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numpy.typing import NDArray

from structir.backend.cpu.integer_tiles import HEAD, IntegerTile, grouping, integer_shapes
from structir.backend.cpu.objects import load_or_build, symbol_builders
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
    code = load_or_build(f"integer product {shapes} {group}", build)
    llvm.add_symbol("structir_packed_product_int8", code.addresses[0])


symbol_builders |= {
    PANEL: _load_panels,
    row_name(PANEL): _load_panels,
    "structir_packed_product_int8": _load_product,
}


def packed_integers(matrix: NDArray[np.int8]) -> NDArray[np.int8]:
    """Packs a matrix (terms, columns) into panels: initial accumulators, then groups of terms."""
    group, shapes = grouping(), integer_shapes()
    terms, columns = matrix.shape
    lines = -(-terms // group.terms)
    widths = panel_widths(columns, shapes)
    whole = np.zeros((lines * group.terms, sum(widths)), np.int8)
    whole[:terms, :columns] = matrix
    starts = -group.shift * whole.sum(axis=0, dtype=np.int32)
    memory = np.empty(whole.size + 4 * len(starts) + ALIGNMENT, np.int8)
    panels = memory[-memory.ctypes.data % ALIGNMENT :][: whole.size + 4 * len(starts)]
    at = offset = 0
    for width in widths:
        columns_here = slice(at, at + width)
        grouped = whole[:, columns_here].reshape(lines, group.terms, width).transpose(0, 2, 1)
        for part in (starts[columns_here].view(np.int8), grouped.ravel()):
            panels[offset : offset + part.size] = part
            offset += part.size
        at += width
    return panels
