"""The lines of kernels that call a function of the library, or do what it would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from structir.backend.cpu.products import WIDEST_PANEL, has_own_products
from structir.backend.loops.contraction import MatrixForm
from structir.ir.expr import Var
from structir.ir.kernel import Element, LibraryCall, Literal
from structir.ir.kernel_functions import LIBRARY

Room = Callable[[int, str], str]  # an array of so many elements, to be used as they go


def _tiled_product(
    places: Sequence[str], integers: Sequence[str], dtype: str, room: Room
) -> list[str]:
    args = [*places, *integers]
    if not has_own_products(dtype):
        return [f"multiply_matrices({', '.join(args)})"]
    return [f"multiply_tiled(({', '.join([*args, room(WIDEST_PANEL, dtype)])}))"]


def _transpose(places: Sequence[str], integers: Sequence[str], dtype: str, room: Room) -> list[str]:
    if has_own_products(dtype):
        return [f"turn_over(({', '.join([*places, *integers])}))"]
    rows, columns, out_row, source_row = integers
    return [
        f"turned_to = {places[0]}",
        f"turned_from = {places[1]}",
        f"for turned_row in range({rows}):",
        f"    for turned in range({columns}):",
        f"        turned_to[turned_row * {out_row} + turned] = "
        f"turned_from[turned * {source_row} + turned_row]",
    ]


def packable_form(call: LibraryCall, constant: frozenset[Var]) -> MatrixForm | None:
    """How the right operand of a product lies in a constant, if it can be put in panels once."""
    right = call.args[1]
    if call.fn != "tiled_product" or not isinstance(right, Element) or right.array not in constant:
        return None
    info: Any = right.array.struct_info
    named = dict(zip(LIBRARY[call.fn].integers, call.args[3:], strict=True))
    names = ("terms", "columns", "right_term", "right_column")
    asked = [right.indices[0], *[named[name] for name in names]]
    known = [int(number.value) for number in asked if isinstance(number, Literal)]
    known += [size for size in info.dims if isinstance(size, int)]
    if len(known) < len(asked) + len(info.dims) or not has_own_products(str(info.dtype)):
        return None
    start, terms, columns, down, across, *sizes = known
    last = start + (terms - 1) * down + (columns - 1) * across
    inside = min(terms, columns) > 0 <= min(start, down, across) and last < prod(sizes)
    return MatrixForm(start, terms, columns, down, across) if inside else None


def packed_product_lines(places: Sequence[str], integers: Sequence[str]) -> list[str]:
    """A product whose right operand is in panels."""
    rows, columns, terms, left_row, left_term, _, _, out_row = integers
    args = [*places, rows, columns, terms, left_row, left_term, out_row]
    return [f"multiply_packed(({', '.join(args)}))"]


LIBRARY_TEXTS = {"tiled_product": _tiled_product, "transpose": _transpose}
