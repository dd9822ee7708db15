"""The lines of kernels that call a function of the library, or do what it would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from structir.backend.cpu.products import WIDEST_PANEL, has_own_products

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


LIBRARY_TEXTS = {"tiled_product": _tiled_product, "transpose": _transpose}
