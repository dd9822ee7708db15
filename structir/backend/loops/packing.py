"""Operands that are constants, in panels: packed once, when a product is written out."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from structir.backend.cpu.panels import lanes_of, packed, packed_narrow, padded_columns
from structir.backend.cpu.products import has_own_products, has_pixel_products
from structir.backend.loops.access import Address
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction
from structir.backend.loops.stage import Stage
from structir.ir.dims import Dim, Sym

Form = tuple[int, int, int, int, int]  # where it starts, terms, columns, and their steps
Packing = Callable[[Any], Any]
MOST_FILLING = 0.2  # of panels one register wide

# Panels by the constant that they are made of, as long as both live: plans of one program share.
_panels: dict[tuple[int, Form, Packing], tuple[Any, weakref.ref[Any]]] = {}


def packed_constant(stage: Stage, found: Contraction) -> Buffer | None:
    """The right operand of a product in panels, if it is one constant for all of the batch."""
    if found.windows or not has_own_products(stage.out.dtype):
        return None
    form = _form(stage, found.right.buffer.root, found.right_address, found.k, found.n)
    return None if form is None else _constant(stage, found.right.buffer.root, form, packed)


def packed_weights(stage: Stage, found: Contraction) -> Buffer | None:
    """The left operand of a product with windows, turned over, in panels one register wide: if it
    is one constant for all of the batch that fills them well."""
    if not found.windows or not has_pixel_products(stage.out.dtype):
        return None
    form = _form(stage, found.left.buffer.root, found.left_address, found.k, found.m)
    if form is None:
        return None
    filled = padded_columns(form[2], lanes_of(stage.out.dtype))
    if filled - form[2] > MOST_FILLING * form[2]:
        return None
    return _constant(stage, found.left.buffer.root, form, packed_narrow)


def _form(
    stage: Stage, buffer: Buffer, address: Address, terms: tuple[Sym, ...], columns: tuple[Sym, ...]
) -> Form | None:
    """How a matrix of these terms and columns lies in a constant."""
    if buffer.origin != "constant" or set(address.coefficients) - {*columns, *terms}:
        return None
    sizes = _extent(stage, terms), _extent(stage, columns)
    steps = address.coefficient(terms[-1]), address.coefficient(columns[-1])
    numbers = [d for d in (address.rest, *sizes, *steps) if isinstance(d, int)]
    if len(numbers) < 5 or 0 in numbers[1:3]:
        return None
    start, rows, width, down, across = numbers
    return start, rows, width, down, across


def _constant(stage: Stage, buffer: Buffer, form: Form, packing: Packing) -> Buffer:
    panels = _panels_of(buffer.data, form, packing)
    return Buffer(panels.shape, stage.out.dtype, "constant", data=panels, name="packed constant")


def _extent(stage: Stage, axes: tuple[Any, ...]) -> Dim:
    found: Dim = 1
    for axis in axes:
        found = found * stage.extents[axis]
    return found


def _panels_of(data: Any, form: Form, packing: Packing) -> Any:
    key = (id(data), form, packing)
    known = _panels.get(key)
    panels = known[1]() if known is not None and known[0]() is data else None
    if panels is None:
        start, rows, width, down, across = form
        flat = np.ascontiguousarray(data).reshape(-1)[start:]
        steps = (down * flat.itemsize, across * flat.itemsize)
        matrix = np.lib.stride_tricks.as_strided(flat, (rows, width), steps, writeable=False)
        panels = packing(matrix)
        forget = weakref.ref(panels, lambda _: _panels.pop(key, None))
        _panels[key] = (weakref.ref(data), forget)
    return panels
