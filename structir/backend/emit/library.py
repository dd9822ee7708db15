"""Emits calls of library functions on memory, once all elements that they access are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from structir.backend.cpu.products import WIDEST_PANEL, has_own_products
from structir.backend.emit.emitter import Emitter
from structir.backend.emit.gathered import emit_gathered, emit_pixels
from structir.backend.emit.packed import (
    add_panels,
    emit_packed_product,
    emit_packing,
    packable_form,
)
from structir.backend.emit.types import STORED
from structir.backend.emit.windows import COMBINE, emit_windows
from structir.backend.loops.kernel_table import dtype_of
from structir.ir.expr import Var
from structir.ir.kernel import Element, LibraryCall, Literal, Scalar
from structir.ir.kernel_functions import LIBRARY
from structir.ir.struct_info import TensorStructInfo

ONE = Literal(1, "int64")
Place = Callable[[], str]  # emits an address


def emit_library_call(emitter: Emitter, call: LibraryCall) -> None:
    """Emits a call of a library function."""
    asm, function = emitter.asm, LIBRARY[call.fn]
    count = len(function.regions)
    scalars = dict(zip(function.integers, call.args[count:], strict=True))
    with nullcontext() if call.fn in COMBINE else emitter.sharing_all():
        values = {name: emitter.index(scalar) for name, scalar in scalars.items()}
    regions = [a for a in call.args[:count] if isinstance(a, Element)]
    starts, written = [], ""
    for number, (name, element) in enumerate(zip(function.regions, regions, strict=True)):
        starts.append(emitter.index(element.indices[0]))
        steps = function.steps(name, values)
        is_filled = asm.all_of([asm.compare("sgt", count, "0") for count, _ in steps])
        if number == function.written:
            written = is_filled
        axes = [(n, ONE if step == 1 else step) for n, step in function.steps(name, scalars)]
        if not emitter.is_generated and not _is_inside(emitter, element, axes):
            with asm.when(is_filled):
                _check_ends(emitter, element, starts[-1], steps)
    with asm.when(written):
        places = [
            partial(_place, emitter, e.array, start)
            for e, start in zip(regions, starts, strict=True)
        ]
        ROWS[call.fn](emitter, call, places, list(values.values()))


def _place(emitter: Emitter, array: Var, start: str) -> str:
    kind = STORED[dtype_of(array)]
    pointer = f"getelementptr {kind}, ptr {emitter.array(array)}, i64 {start}"
    return emitter.asm.value(pointer)


def _is_inside(emitter: Emitter, element: Element, axes: Sequence[tuple[Scalar, Scalar]]) -> bool:
    elements = emitter.table.elements(element.array)
    return emitter.ranges.region_inside(element.indices[0], axes, elements)


def _check_ends(
    emitter: Emitter, element: Element, start: str, steps: Sequence[tuple[str, Any]]
) -> None:
    """Checks the first and the last element of a region, and its steps."""
    checks, size = emitter.checks, emitter.elements(element.array)
    site, last = checks.site(element.array, 0, element), start
    beyond = emitter.asm.integer("add", size, "1")
    for _, step in steps:
        if step != 1:
            checks.inside(step, beyond, site)
    for count, step in steps:
        last = checks.further(last, count, str(step))
    for index in (start, last):
        checks.inside(index, size, site)


def _product(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """A matrix product: by packed panels of a constant, by tiles, or by BLAS."""
    left_operand = call.args[0]
    assert isinstance(left_operand, Element)
    dtype, form = dtype_of(left_operand.array), packable_form(call, emitter.constants)
    if form is not None:
        rows, columns, terms, left_row, left_term, _, _, out_row = integers
        left, _, out = places
        right = call.args[1]
        assert isinstance(right, Element)
        packing = "integers" if dtype == "int8" else "wide"
        panels = add_panels(emitter, right, form, packing)
        operands = (left, lambda: emitter.array(panels), out)
        numbers = (rows, columns, terms, left_row, left_term, out_row)
        _call(emitter, f"structir_packed_product_{dtype}", operands, numbers)
    elif has_own_products(dtype):
        room = emitter.array(_room(emitter, dtype))
        _call(emitter, f"structir_product_{dtype}", places, integers, (room,))
    else:
        emitter.asm.call_prepared(f"product_{dtype}", "void", _arguments(places, integers))


def _transpose(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    dtype = dtype_of(call.written.array)
    if has_own_products(dtype):
        _call(emitter, f"structir_turning_{dtype}", places, integers)
    else:
        emitter.asm.call_prepared(f"transpose_{dtype}", "void", _arguments(places, integers))


def _call(
    emitter: Emitter,
    symbol: str,
    places: Sequence[Place],
    integers: Sequence[str],
    last: Sequence[str] = (),
) -> None:
    arguments = [*_arguments(places, integers), *[("ptr", p) for p in last]]
    emitter.asm.call(symbol, "void", arguments)


def _arguments(places: Sequence[Place], integers: Sequence[str]) -> list[tuple[str, str]]:
    return [*[("ptr", place()) for place in places], *[("i64", i) for i in integers]]


def _room(emitter: Emitter, dtype: str) -> Var:
    """The memory that products of a dtype use."""
    if dtype not in emitter.rooms:
        room = Var("room", TensorStructInfo((WIDEST_PANEL,), dtype))
        emitter.rooms[dtype] = room
        emitter.table.add_array(room)
    return emitter.rooms[dtype]


Row = Callable[[Emitter, LibraryCall, Sequence[Place], Sequence[str]], None]
ROWS: dict[str, Row] = {
    "tiled_product": _product,
    "pack_panels": emit_packing,
    "packed_product": emit_packed_product,
    "gathered_product": emit_gathered,
    "pixel_product": emit_pixels,
    "transpose": _transpose,
    **dict.fromkeys(COMBINE, emit_windows),
}
