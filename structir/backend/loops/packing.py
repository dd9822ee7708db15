"""Operands that are constants, in panels: packed once, when a product is written out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from structir.backend.cpu.integer_products import packed_integers
from structir.backend.cpu.panels import narrow_widths, packed, packed_narrow, panel_widths
from structir.backend.cpu.products import has_own_products
from structir.backend.cpu.tiles import tile_shapes
from structir.backend.loops.access import address_of
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.contraction import Contraction, MatrixForm, constant_matrix
from structir.backend.loops.expression import Load
from structir.backend.loops.stage import Stage
from structir.ir.dims import Dim, Sym
from structir.printer.files.mapped_memory import release_pages

PACKINGS: dict[str, Callable[[Any], Any]] = {
    "wide": packed,
    "narrow": packed_narrow,
    "integers": packed_integers,
}


@attrs.frozen(eq=False)
class PanelsOrigin:
    """What panels were made of, and how."""

    data: Callable[[], Any]  # the constant, or None after its end
    form: MatrixForm
    packing: str


# Panels by the constant that they are made of, as long as both live: plans of one program share.
_panels: dict[tuple[int, MatrixForm, str], tuple[Any, weakref.ref[Any]]] = {}
_origins: dict[int, PanelsOrigin] = {}  # of panels by their own number


def packed_constant(stage: Stage, found: Contraction) -> Buffer | None:
    """The right operand of a product in panels, if it is one constant for all of the batch."""
    if found.windows or not has_own_products(stage.out.dtype):
        return None
    buffer = found.right.buffer.root
    form = constant_matrix(stage, buffer, found.right_address, found.k, found.n)
    packing = "integers" if stage.out.dtype == "int32" else "wide"
    return None if form is None else packed_buffer(buffer, form, packing)


def packed_weights(stage: Stage, found: Contraction) -> Buffer | None:
    """The left operand of a product with weights, turned over, in panels one register wide."""
    if found.weights is None:
        return None
    return packed_buffer(found.left.buffer.root, found.weights, "narrow")


def elements_of(read: Load, extents: Mapping[Sym, Dim]) -> Any:
    """What a read of a constant gives over some axes, as an array; None where that is not known."""
    data, count = read.buffer.root.data, len(extents)
    if data is None or not all(isinstance(size, int) for size in extents.values()):
        return None
    address = address_of(read.buffer, read.entries, tuple(extents))
    steps = [c for axis in extents if isinstance(c := address.coefficient(axis), int)]
    sizes = [size for size in extents.values() if isinstance(size, int)]
    if address.data or not isinstance(address.rest, int) or len(steps) < count:
        return None
    places = np.array(address.rest)
    for k, (step, size) in enumerate(zip(steps, sizes, strict=True)):
        places = places + np.reshape(step * np.arange(size), [-1] + [1] * (count - 1 - k))
    return np.ascontiguousarray(data).reshape(-1)[places]


def packed_buffer(buffer: Buffer, form: MatrixForm, packing: str) -> Buffer:
    panels = panels_of(buffer.data, form, packing)
    return Buffer(panels.shape, panels.dtype.name, "constant", data=panels, name="packed constant")


def constant_panels(buffer: Buffer, form: MatrixForm) -> Buffer:
    """A part of a constant in panels, as products take it."""
    return packed_buffer(buffer.root, form, "wide")


def panels_of(data: Any, form: MatrixForm, packing: str) -> Any:
    """A part of a constant in panels."""
    key = (id(data), form, packing)
    known = _panels.get(key)
    panels = known[1]() if known is not None and known[0]() is data else None
    if panels is None:
        flat = np.ascontiguousarray(data).reshape(-1)[form.start :]
        shape = form.terms, form.columns
        steps = form.down * flat.itemsize, form.across * flat.itemsize
        matrix = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
        panels = PACKINGS[packing](matrix)
        release_pages(data)  # what is in panels is rarely read again
        held, own = weakref.ref(data), id(panels)
        _origins[own] = PanelsOrigin(held, form, packing)
        _panels[key] = (held, weakref.ref(panels, lambda _: _forget(key, own)))
    return panels


def restored_panels(panels: Any, data: Callable[[], Any], form: MatrixForm, packing: str) -> Any:
    """Panels from a file, and what they were made of when it is asked for."""
    if id(panels) not in _origins:
        _origins[id(panels)] = PanelsOrigin(data, form, packing)
        weakref.finalize(panels, _origins.pop, id(panels), None).atexit = False
    return panels


def widths_of(columns: int, dtype: str, packing: str) -> list[int]:
    """The widths of the panels of floating-point numbers."""
    if packing == "narrow":
        return narrow_widths(columns, dtype)
    return panel_widths(columns, tile_shapes(dtype))


def origin_of(panels: Any) -> PanelsOrigin | None:
    """What an array was made of, if it is panels of something that is still here."""
    found = _origins.get(id(panels))
    return found if found is not None and found.data() is not None else None


def _forget(key: Any, own: int) -> None:
    _panels.pop(key, None)
    _origins.pop(own, None)
