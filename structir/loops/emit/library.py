"""Emits calls of library functions on memory, once all elements that they access are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import Element, LibraryCall, Literal, Scalar, nodes_of
from structir.ir.kernel_functions import LIBRARY
from structir.ir.struct_info import TensorStructInfo
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.gathered import emit_gathered, emit_pixels
from structir.loops.emit.packed import (
    add_panels,
    check_part,
    emit_packed_product,
    emit_packing,
    ordered_loops,
    packable_form,
)
from structir.loops.emit.windows import COMBINE, emit_windows
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.assembly import STORED
from structir.targets.cpu.layouts import PART_MULTIPLE
from structir.targets.cpu.packed_layout import panels_of_rows
from structir.targets.cpu.products import (
    FEW_ORDERED_ROWS,
    WIDEST_PANEL,
    has_own_products,
    has_products_of_floats,
)
from structir.targets.cpu.tiles import columns_together, few_rows_shapes, paired_shapes

ONE = Literal(1, "int64")
# The library functions of products with packed operands, by the packing of floats.
PACKED_PRODUCTS = {
    "wide": "packed_product",
    "paired": "paired_product",
    "few_rows": "few_rows_product",
}
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
    form = packable_form(call, emitter.constants) if emitter.constants else None
    if form is None:
        _plain_product(emitter, call, places, integers)
        return
    rows, columns, terms, left_row, left_term, _, _, out_row = integers
    numbers = (rows, columns, terms, left_row, left_term, out_row)
    _product_by_panels(emitter, call, form, places, numbers, "0")


def _column_product(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """A product by some columns: by packed panels of all, or as the product that it is."""
    asm, (left, right, out), element = emitter.asm, places, call.args[1]
    assert isinstance(element, Element)
    dtype, form = dtype_of(element.array), packable_form(call, emitter.constants)
    rows, columns, terms, left_row, left_term, all_columns, first, *steps, out_row = integers
    packing = _packing_of_phase(emitter, call)
    if not emitter.is_generated:
        check_part(emitter, element, first, columns, all_columns)

    def plain() -> None:
        offset = asm.integer("mul", first, steps[1])
        skipped = partial(_after, emitter, right, dtype, offset)
        numbers = (rows, columns, terms, left_row, left_term, *steps, out_row)
        _plain_product(emitter, call, (left, skipped, out), numbers)

    def packed() -> None:
        assert form is not None
        numbers = (rows, columns, terms, left_row, left_term, out_row)
        offset = asm.integer("mul", first, terms)

        def by(layout: str) -> None:
            _product_by_panels(emitter, call, form, places, numbers, offset, layout)

        pairs = element.array, form, "paired"
        if packing == "few_rows" and pairs in emitter.panels.values():
            asm.choose(
                _is_one_pair(emitter, rows, dtype), lambda: by("paired"), lambda: by(packing)
            )
        else:
            by(packing or "wide")

    if form is None:
        plain()
    elif emitter.is_generated or packing:
        packed()
    else:
        emitter.unpacked.add(element.array)
        at_panel = _divides_columns(emitter, first, dtype)
        is_last = asm.compare("eq", asm.integer("add", first, columns), all_columns)
        is_whole = _divides_columns(emitter, columns, dtype)
        at_end = asm.value(f"or i1 {is_last}, {is_whole}")
        asm.choose(asm.all_of([at_panel, at_end]), packed, plain)


def _packing_of_phase(emitter: Emitter, call: LibraryCall) -> str:
    """Returns the packing of a product of floats in a kernel with phases, empty if it has none of
    its own: parts of the columns begin where panels of at most two registers do, and a product by
    all of them has few rows."""
    part, left = emitter.kernel.part, call.args[0]
    if part is None or not emitter.has_phases or not isinstance(left, Element):
        return ""
    named = dict(zip(LIBRARY[call.fn].integers, call.args[3:], strict=True))
    value = emitter.ranges.value
    if not has_own_products(dtype_of(left.array)) or part.high not in emitter.ranges.values:
        return ""
    low, high = value(part.low), value(part.high)
    first, columns, all_columns = [value(named[n]) for n in ("first", "columns", "all_columns")]
    if first == 0 and columns == all_columns:
        return "few_rows"
    before = None if first is None or low is None else first - low
    if not isinstance(before, int) or low is None or high is None or columns != high - low:
        return ""
    sizes = [part.extent, before]
    is_block = all(isinstance(size, int) and size % PART_MULTIPLE == 0 for size in sizes)
    return "paired" if is_block or (before == 0 and all_columns == part.extent) else ""


def _is_one_pair(emitter: Emitter, rows: str, dtype: str) -> str:
    """Whether rows are one tile of two registers, which reads several panels, or has more rows than
    one of three. This is for panels that parts of the columns have in any case."""
    asm, pair = emitter.asm, paired_shapes(dtype)[-1]
    most, more = few_rows_shapes(dtype)[-1].rows[0], pair.rows[0]
    is_more = asm.all_of([asm.compare("sgt", rows, str(most)), asm.compare("sle", rows, str(more))])
    are_few = asm.compare("sle", rows, str(max(panels_of_rows(pair))))
    return asm.value(f"or i1 {is_more}, {are_few}")


def _divides_columns(emitter: Emitter, number: str, dtype: str) -> str:
    """Whether a number is a multiple of the columns of panels that tiles may read together."""
    asm = emitter.asm
    rest = asm.integer("srem", number, str(columns_together(dtype)))
    return asm.compare("eq", rest, "0")


def _after(emitter: Emitter, place: Place, dtype: str, offset: str) -> str:
    """The address some elements after a place."""
    return emitter.asm.value(f"getelementptr {STORED[dtype]}, ptr {place()}, i64 {offset}")


def _product_by_panels(
    emitter: Emitter,
    call: LibraryCall,
    form: MatrixForm,
    places: Sequence[Place],
    integers: Sequence[str],
    offset: str,
    packing: str = "wide",
) -> None:
    """A product by the panels of a constant, from an offset on."""
    (left, _, out), right = places, call.args[1]
    assert isinstance(right, Element)
    dtype = dtype_of(right.array)
    panels = add_panels(emitter, right, form, "integers" if dtype == "int8" else packing)
    place: Place = partial(emitter.array, panels)
    if offset != "0":
        place = partial(_after, emitter, place, dtype, offset)
    _call(emitter, f"structir_{PACKED_PRODUCTS[packing]}_{dtype}", (left, place, out), integers)


def _plain_product(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    left = call.args[0]
    assert isinstance(left, Element)
    dtype = dtype_of(left.array)
    if has_own_products(dtype):
        room = emitter.array(_room(emitter, dtype))
        _call(emitter, f"structir_product_{dtype}", places, integers, (room,))
    else:
        emitter.asm.call_prepared(f"product_{dtype}", "void", _arguments(places, integers))


def _ordered_product(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """A product that is added to the result term by term: line by line of the right operand if the
    result has few rows, since these are bound by memory, or if the CPU has no tiles."""
    asm, dtype = emitter.asm, dtype_of(call.written.array)
    loops = ordered_loops(call)
    emitter.sure |= {n for loop in loops for n in nodes_of(loop) if isinstance(n, Element)}

    def by_tiles() -> None:
        room = emitter.array(_room(emitter, dtype))
        _call(emitter, f"structir_ordered_product_{dtype}", places, integers, (room,))

    rows, *_, right_column, _ = integers
    if not has_products_of_floats(dtype):
        emitter.block(loops)
    elif right_column == "1":
        has_few_rows = asm.compare("slt", rows, str(FEW_ORDERED_ROWS))
        asm.choose(has_few_rows, lambda: emitter.block(loops), by_tiles)
    else:
        by_tiles()


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
    "ordered_product": _ordered_product,
    "pack_panels": emit_packing,
    "packed_product": emit_packed_product,
    "column_product": _column_product,
    "gathered_product": emit_gathered,
    "pixel_product": emit_pixels,
    "transpose": _transpose,
    **dict.fromkeys(COMBINE, emit_windows),
}
