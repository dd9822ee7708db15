"""Constant operands in packed layout, and run-time operands that kernels pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import (
    Apply,
    Assign,
    Element,
    For,
    KernelStatement,
    LibraryCall,
    Literal,
    LoopVariable,
    Scalar,
)
from structir.ir.kernel_functions import LIBRARY, PANEL_COLUMNS
from structir.ir.struct_info import TensorStructInfo
from structir.loops.emit.emitter import Emitter
from structir.loops.products.contraction import MatrixForm
from structir.loops.program.kernel_table import dtype_of
from structir.targets.cpu.products import has_own_products

Place = Callable[[], str]
ZERO, ONE = Literal(0, "int64"), Literal(1, "int64")
# The functions whose right operand can be packed, and its number of columns.
RIGHT_COLUMNS = {"tiled_product": "columns", "column_product": "all_columns"}


def known_integers(scalars: Sequence[Scalar]) -> list[int] | None:
    """Returns the values of literals; None if others are among them."""
    known = [int(number.value) for number in scalars if isinstance(number, Literal)]
    return known if len(known) == len(scalars) else None


def matrix_form(constants: frozenset[Var], array: Var, form: MatrixForm) -> MatrixForm | None:
    """Returns the layout of a matrix, if an array is a constant that contains it."""
    info: Any = array.struct_info
    sizes = [size for size in info.dims if isinstance(size, int)]
    if array not in constants or len(sizes) < len(info.dims):
        return None
    last = form.start + (form.terms - 1) * form.down + (form.columns - 1) * form.across
    is_filled = min(form.terms, form.columns) > 0 <= min(form.start, form.down, form.across)
    return form if is_filled and last < prod(sizes) else None


def packable_form(call: LibraryCall, constants: frozenset[Var]) -> MatrixForm | None:
    """Returns the layout of the right operand of a product in a constant, if it can be packed: all
    columns, of which a call may have some."""
    right, columns = call.args[1], RIGHT_COLUMNS.get(call.fn)
    if columns is None or not isinstance(right, Element):
        return None
    named = dict(zip(LIBRARY[call.fn].integers, call.args[3:], strict=True))
    names = ("terms", columns, "right_term", "right_column")
    known = known_integers([right.indices[0], *[named[name] for name in names]])
    dtype = dtype_of(right.array)
    if known is None or not (dtype == "int8" or has_own_products(dtype)):
        return None
    return matrix_form(constants, right.array, MatrixForm(*known))


def add_panels(emitter: Emitter, source: Element, form: MatrixForm, packing: str) -> Var:
    """Adds the packed panels of a part of a constant to the arrays of the kernel."""
    panels = Var("panels", TensorStructInfo((1,), dtype_of(source.array)))
    emitter.panels[panels] = source.array, form, packing
    emitter.table.add_array(panels)
    return panels


def at_least_0(emitter: Emitter, size: str) -> str:
    """Emits a size that is not negative."""
    asm = emitter.asm
    return asm.select(asm.compare("sgt", size, "0"), "i64", size, "0")


def check_part(emitter: Emitter, element: Element, first: str, count: str, size: str) -> None:
    """Checks that a part of the rows or columns of a region is inside of it."""
    asm, site = emitter.asm, emitter.checks.site(element.array, 0, element)
    last = asm.integer("sub", asm.integer("add", first, count), "1")
    size = at_least_0(emitter, size)
    for index in (first, last):
        emitter.checks.inside(index, size, site)


def emit_packing(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """Emits the packing of a matrix into panels; without tiles, a copy with its lines."""
    dtype = dtype_of(call.written.array)
    _check_columns(emitter, call, 0, integers)
    if not has_own_products(dtype):
        emitter.block(_copy(call))
        return
    terms, columns, _, row, column = integers
    arguments = [*[("ptr", place()) for place in places]]
    arguments += [("i64", n) for n in (terms, columns, row, column)]
    emitter.asm.call(f"structir_packing_{dtype}", "void", arguments)


def emit_packed_product(
    emitter: Emitter, call: LibraryCall, places: Sequence[Place], integers: Sequence[str]
) -> None:
    """Emits the product by such panels."""
    dtype = dtype_of(call.written.array)
    _check_columns(emitter, call, 1, integers)
    rows, columns, terms, width, left_row, left_term, out_row = integers
    pointers = [("ptr", place()) for place in places]
    if has_own_products(dtype):
        sizes = [rows, columns, terms, left_row, left_term, out_row]
        arguments = [*pointers, *[("i64", n) for n in sizes]]
        emitter.asm.call(f"structir_packed_product_{dtype}", "void", arguments)
        return
    sizes = [rows, columns, terms, left_row, left_term, width, "1", out_row]
    arguments = [*pointers, *[("i64", n) for n in sizes]]
    emitter.asm.call_prepared(f"product_{dtype}", "void", arguments)


def _check_columns(
    emitter: Emitter, call: LibraryCall, region: int, integers: Sequence[str]
) -> None:
    """Checks that the panels have room for whole vectors."""
    if emitter.is_generated:
        return
    n = dict(zip(LIBRARY[call.fn].integers, integers, strict=True))
    element, asm = call.args[region], emitter.asm
    assert isinstance(element, Element)
    site = emitter.checks.site(element.array, 0, element)
    more = asm.integer("add", n["columns"], str(PANEL_COLUMNS - 1))
    width = asm.integer("and", more, str(-PANEL_COLUMNS))
    is_filled = asm.compare("sgt", n["panel_columns"], "0")
    size = asm.select(is_filled, "i64", n["panel_columns"], "0")
    emitter.checks.inside(asm.integer("sub", width, "1"), size, site)


def _copy(call: LibraryCall) -> list[KernelStatement]:
    n = dict(zip(LIBRARY[call.fn].integers, call.args[2:], strict=True))
    term, column = [LoopVariable(f"{call.fn}_{axis}", "int64") for axis in "tj"]
    target = _strided(call.args[0], (term, n["panel_columns"]), (column, ONE))
    source = _strided(call.args[1], (term, n["source_row"]), (column, n["source_column"]))
    copy = Assign(target, source)
    return [For(term, ZERO, n["terms"], 1, (For(column, ZERO, n["columns"], 1, (copy,)),))]


def ordered_loops(call: LibraryCall) -> list[KernelStatement]:
    """Returns the loops of a product that is added to its result term by term."""
    function = LIBRARY[call.fn]
    n = dict(zip(function.integers, call.args[3:], strict=True))
    loops = {axis: LoopVariable(f"{call.fn}_{axis}", "int64") for axis in ("columns", "terms")}
    loops["rows"] = LoopVariable(f"{call.fn}_rows", "int64")
    left, right, out = [
        _strided(element, *[(loops[count], n[step] if step else ONE) for count, step in axes])
        for element, axes in zip(call.args, function.regions.values(), strict=False)
    ]
    product = Apply("mul", (left, right), out.dtype)
    body: KernelStatement = Assign(out, Apply("add", (out, product), out.dtype))
    for axis, variable in loops.items():  # innermost first
        body = For(variable, ZERO, n[axis], 1, (body,))
    return [body]


def _strided(element: Scalar, *axes: tuple[Scalar, Scalar]) -> Element:
    """Returns the element that is so many steps after another one, along each axis."""
    assert isinstance(element, Element)
    index = element.indices[0]
    for variable, stride in axes:
        product = Apply("mul", (variable, stride), "int64")
        index = Apply("add", (index, product), "int64")
    return Element(element.array, (index,), element.dtype, flat=True)
