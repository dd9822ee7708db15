"""Constant operands in packed layout: packed once, when a product is written."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from structir.ir.dims import Dim, Sym
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.access import address_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Load
from structir.printer.files.mapped_memory import release_pages
from structir.targets.cpu.integer_products import packed_integers
from structir.targets.cpu.packed_layout import (
    narrow_widths,
    packed,
    packed_for_few_rows,
    packed_narrow,
    packed_paired,
    panel_widths,
)
from structir.targets.cpu.tiles import TileShape, few_rows_shapes, paired_shapes, tile_shapes

PACKINGS: dict[str, Callable[[Any], Any]] = {
    "wide": packed,
    "paired": packed_paired,
    "few_rows": packed_for_few_rows,
    "narrow": packed_narrow,
    "integers": packed_integers,
}
SHAPES: dict[str, Callable[[str], tuple[TileShape, ...]]] = {
    "wide": tile_shapes,
    "paired": paired_shapes,
    "few_rows": few_rows_shapes,
}


@attrs.frozen(eq=False)
class PanelsOrigin:
    """The constant that panels were packed from, and the packing."""

    data: Callable[[], Any]  # the constant, or None once it is released
    form: MatrixForm
    packing: str


# Panels by their constant, while both are alive: plans of one program share them.
_panels: dict[tuple[int, MatrixForm, str], tuple[Any, weakref.ref[Any]]] = {}
_origins: dict[int, PanelsOrigin] = {}  # of panels, by their id


def elements_of(read: Load, extents: Mapping[Sym, Dim]) -> Any:
    """Returns the elements of a constant that are read over some axes, as a view; None if
    unknown."""
    data, count = read.buffer.root.data, len(extents)
    if data is None or not all(isinstance(size, int) for size in extents.values()):
        return None
    address = address_of(read.buffer, read.entries, tuple(extents))
    steps = [c for axis in extents if isinstance(c := address.coefficient(axis), int)]
    sizes = [size for size in extents.values() if isinstance(size, int)]
    if address.data or not isinstance(address.rest, int) or len(steps) < count:
        return None
    flat = np.ascontiguousarray(data).reshape(-1)
    distances = [step * (size - 1) for step, size in zip(steps, sizes, strict=True)]
    low = address.rest + sum(d for d in distances if d < 0)
    high = address.rest + sum(d for d in distances if d > 0)
    if low < 0 or high >= flat.size:
        return None
    strides = [step * flat.itemsize for step in steps]
    first = flat[address.rest :]
    return np.lib.stride_tricks.as_strided(first, sizes, strides, writeable=False)


def packed_buffer(buffer: Buffer, form: MatrixForm, packing: str) -> Buffer:
    """Returns a part of a constant in the packed layout of products."""
    panels = panels_of(buffer.data, form, packing)
    return Buffer(panels.shape, panels.dtype.name, "constant", data=panels, name="packed constant")


def panels_of(data: Any, form: MatrixForm, packing: str) -> Any:
    """Packs a part of a constant."""
    key = (id(data), form, packing)
    known = _panels.get(key)
    panels = known[1]() if known is not None and known[0]() is data else None
    if panels is None:
        flat = np.ascontiguousarray(data).reshape(-1)[form.start :]
        shape = form.terms, form.columns
        steps = form.down * flat.itemsize, form.across * flat.itemsize
        matrix = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
        panels = PACKINGS[packing](matrix)
        release_pages(data)  # packed constants are rarely read again
        held, own = weakref.ref(data), id(panels)
        _origins[own] = PanelsOrigin(held, form, packing)
        _panels[key] = (held, weakref.ref(panels, lambda _: _forget(key, own)))
    return panels


def restored_panels(panels: Any, data: Callable[[], Any], form: MatrixForm, packing: str) -> Any:
    """Returns panels from a file, with their constant on demand."""
    if id(panels) not in _origins:
        _origins[id(panels)] = PanelsOrigin(data, form, packing)
        weakref.finalize(panels, _origins.pop, id(panels), None).atexit = False
    return panels


def widths_of(columns: int, dtype: str, packing: str) -> list[int]:
    """Returns the panel widths of floating-point numbers."""
    if packing == "narrow":
        return narrow_widths(columns, dtype)
    return panel_widths(columns, SHAPES[packing](dtype))


def origin_of(panels: Any) -> PanelsOrigin | None:
    """Returns the origin of an array, if it has panels of a constant that is still alive."""
    known = _origins.get(id(panels))
    return known if known is not None and known.data() is not None else None


def _forget(key: Any, own: int) -> None:
    _panels.pop(key, None)
    _origins.pop(own, None)
