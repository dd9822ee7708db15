"""Emits products of a right operand that is read at offsets in tables: calls of functions, with
checks of the tables, and loops where there is no function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    LoopVariable,
    Scalar,
)
from structir.ir.kernel_functions import LIBRARY
from structir.loops.emit.emitter import Emitter
from structir.loops.emit.packed import (
    Place,
    add_panels,
    at_least_0,
    check_part,
    known_integers,
    matrix_form,
)
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.assembly import STORED
from structir.targets.cpu.packed_layout import lanes_of
from structir.targets.cpu.products import has_products_of_floats, panels_at_once

ZERO = Literal(0, "int64")


def emit_gathered(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """Emits out[i, j] = sum over t of left[i, t] * right[starts[t] + j]."""
    n, dtype = _named(call, integers), dtype_of(call.written.array)
    if not emitter.is_generated:
        span, more = at_least_0(emitter, n["span"]), emitter.asm.integer("sub", n["columns"], "1")
        _check_tables(emitter, call, span, more)
    if not has_products_of_floats(dtype):
        emitter.block(_loops(emitter, call))
        return
    left, right, starts, out = [place() for place in places]
    sizes = [n[name] for name in ("rows", "columns", "terms", "left_row", "out_row")]
    arguments = [*[("ptr", p) for p in (left, right, out)], *[("i64", s) for s in sizes]]
    emitter.asm.call(f"structir_windows_product_{dtype}", "void", [*arguments, ("ptr", starts)])


def emit_pixels(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """Emits out[i, j] = sum over t of weights[first + i, t] * image[starts[t] + points[j]]."""
    asm, n, dtype = emitter.asm, _named(call, integers), dtype_of(call.written.array)
    form = _weights_form(emitter, call)
    if not emitter.is_generated:
        check_part(emitter, _element(call, 0), n["first"], n["rows"], n["weight_rows"])
        _check_tables(emitter, call, at_least_0(emitter, n["span"]), "0")
    if form is None:
        emitter.block(_loops(emitter, call))
    elif emitter.is_generated:
        _pixels(emitter, call, form, places, n)
    else:
        unit = lanes_of(dtype)
        aligned = asm.compare("eq", asm.integer("and", n["first"], str(unit - 1)), "0")
        low = asm.compare("sle", n["rows"], str(panels_at_once(dtype) * unit))
        emitter.unpacked.add(_element(call, 0).array)
        asm.choose(
            asm.all_of([aligned, low]),
            partial(_pixels, emitter, call, form, places, n),
            lambda: emitter.block(_loops(emitter, call)),
        )


def _pixels(
    emitter: Emitter,
    call: LibraryCall,
    form: MatrixForm,
    places: Sequence[Place],
    n: dict[str, str],
) -> None:
    asm, dtype = emitter.asm, dtype_of(call.written.array)
    panels = emitter.array(add_panels(emitter, _element(call, 0), form, "narrow"))
    offset = asm.integer("mul", n["first"], n["terms"])
    weights = asm.value(f"getelementptr {STORED[dtype]}, ptr {panels}, i64 {offset}")
    image, starts, points, out = [place() for place in places[1:]]
    pointers = [image, points, starts, weights, out]
    sizes = [n[name] for name in ("out_row", "terms", "rows", "columns")]
    arguments = [*[("ptr", p) for p in pointers], *[("i64", s) for s in sizes]]
    asm.call(f"structir_pixel_product_{dtype}", "void", arguments)


def _weights_form(emitter: Emitter, call: LibraryCall) -> MatrixForm | None:
    """Returns the layout of all weights, if they are a constant that can be packed."""
    weights = _element(call, 0)
    n = dict(zip(LIBRARY[call.fn].integers, call.args[5:], strict=True))
    known = known_integers([weights.indices[0], n["terms"], n["weight_rows"], n["weight_row"]])
    if known is None or not has_products_of_floats(dtype_of(weights.array)):
        return None
    start, terms, rows, step = known
    return matrix_form(emitter.constants, weights.array, MatrixForm(start, terms, rows, 1, step))


def _named(call: LibraryCall, integers: Sequence[str]) -> dict[str, str]:
    return dict(zip(LIBRARY[call.fn].integers, integers, strict=True))


def _element(call: LibraryCall, region: int) -> Element:
    element = call.args[region]
    assert isinstance(element, Element)
    return element


def _check_tables(emitter: Emitter, call: LibraryCall, span: str, more: str) -> None:
    """Checks that all entries of the tables, the sum of the greatest ones, and as many elements
    `more` are inside of the right operand."""
    asm, function = emitter.asm, LIBRARY[call.fn]
    right = _element(call, 1)
    site = emitter.checks.site(right.array, 0, right)
    sizes = dict(zip(function.integers, call.args[len(function.regions) :], strict=True))
    last = more
    for name in (n for n in function.regions if n in function.tables):
        table = _element(call, list(function.regions).index(name))
        most = Local(f"{call.fn}_{name}", "int64")
        emitter.assigned.add(most)
        at = LoopVariable(f"{call.fn}_t", "int64")
        emitter.set_local(most, "0")
        ((count, _),) = function.regions[name]

        def entry(index: str, table: Element = table, most: Local = most, at: Local = at) -> None:
            emitter.set_local(at, index)
            value = emitter.scalar(_at(table, at))
            emitter.checks.inside(value, span, site)
            is_more = asm.compare("sgt", value, emitter.local(most))
            emitter.set_local(most, asm.select(is_more, "i64", value, emitter.local(most)))

        asm.count("0", emitter.index(sizes[count]), 1, entry)
        last = asm.integer("add", last, emitter.local(most))
    with asm.when(asm.compare("sgt", emitter.index(sizes["terms"]), "0")):
        emitter.checks.inside(last, span, site)


def _at(element: Element, *terms: Scalar) -> Element:
    """Returns the element some elements after another one."""
    index = reduce(_add, terms, element.indices[0])
    return Element(element.array, (index,), element.dtype, flat=True)


def _loops(emitter: Emitter, call: LibraryCall) -> list[KernelStatement]:
    """Returns a call as loops over rows, columns and terms."""
    function = LIBRARY[call.fn]
    n = dict(zip(function.integers, call.args[len(function.regions) :], strict=True))
    dtype = dtype_of(call.written.array)
    row, column, term = [LoopVariable(f"{call.fn}_{axis}", "int64") for axis in "ijt"]
    total = Local(f"{call.fn}_total", dtype)
    emitter.assigned.add(total)
    regions = {name: _element(call, k) for k, name in enumerate(function.regions)}
    offset: Scalar = column
    if "points" in regions:
        offset = _at(regions["points"], column)
    start = _at(regions["starts"], term)
    left, right = [regions[name] for name in list(regions)[:2]]
    line = row if "first" not in n else _add(n["first"], row)
    stride = n["weight_row" if "first" in n else "left_row"]
    value = Apply("mul", (_at(left, _mul(line, stride), term), _at(right, start, offset)), dtype)
    cell = [
        Assign(total, Literal(0.0, dtype)),
        For(term, ZERO, n["terms"], 1, (Assign(total, Apply("add", (total, value), dtype)),)),
        Assign(_at(call.written, _mul(row, n["out_row"]), column), total),
    ]
    return [For(row, ZERO, n["rows"], 1, (For(column, ZERO, n["columns"], 1, tuple(cell)),))]


def _add(left: Scalar, right: Scalar) -> Scalar:
    return Apply("add", (left, right), "int64")


def _mul(left: Scalar, right: Scalar) -> Scalar:
    return Apply("mul", (left, right), "int64")
