"""Right operands that are constants, in panels: packed once, when a product is written out."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from structir.backend.cpu.panels import packed
from structir.backend.cpu.products import has_own_products
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.stage import Stage
from structir.ir.dims import Dim

Form = tuple[int, int, int, int, int]  # where it starts, terms, columns, and their steps

# Panels by the constant that they are made of, as long as both live: plans of one program share.
_panels: dict[tuple[int, Form], tuple[Any, weakref.ref[Any]]] = {}


def packed_constant(stage: Stage, found: Contraction) -> Buffer | None:
    """The right operand of a product in panels, if it is one constant for all of the batch."""
    buffer = found.right.buffer.root
    address = found.right_address
    if buffer.origin != "constant" or found.windows or not has_own_products(stage.out.dtype):
        return None
    if set(address.coefficients) - {*found.n, *found.k}:
        return None
    terms = _extent(stage, found.k)
    columns = _extent(stage, found.n)
    steps = address.coefficient(found.k[-1]), address.coefficient(found.n[-1])
    numbers = [d for d in (address.rest, terms, columns, *steps) if isinstance(d, int)]
    if len(numbers) < 5 or 0 in numbers[1:3]:
        return None
    start, rows, width, down, across = numbers
    panels = _panels_of(buffer.data, (start, rows, width, down, across))
    return Buffer(panels.shape, stage.out.dtype, "constant", data=panels, name="packed constant")


def _extent(stage: Stage, axes: tuple[Any, ...]) -> Dim:
    found: Dim = 1
    for axis in axes:
        found = found * stage.extents[axis]
    return found


def _panels_of(data: Any, form: Form) -> Any:
    key = (id(data), form)
    known = _panels.get(key)
    panels = known[1]() if known is not None and known[0]() is data else None
    if panels is None:
        start, rows, width, down, across = form
        flat = np.ascontiguousarray(data).reshape(-1)[start:]
        steps = (down * flat.itemsize, across * flat.itemsize)
        matrix = np.lib.stride_tricks.as_strided(flat, (rows, width), steps, writeable=False)
        panels = packed(matrix)
        forget = weakref.ref(panels, lambda _: _panels.pop(key, None))
        _panels[key] = (weakref.ref(data), forget)
    return panels
