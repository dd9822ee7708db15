"""Sizes of row variables: `elements(*s)`, the number of elements, and `rank(*s)`.

Each is a symbolic variable that belongs to a row variable. Conditions (`R.require`) contain them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from functools import reduce
from operator import mul
from typing import Any
from weakref import WeakKeyDictionary

from structir.ir.axes import RowVar, size_in
from structir.ir.polynomial import Dim, Poly, Sym

ELEMENTS, RANK = "elements", "rank"
FUNCTIONS = (ELEMENTS, RANK)

_ROWS: WeakKeyDictionary[Sym, tuple[str, RowVar]] = WeakKeyDictionary()


def size_of_row(function: str, row: RowVar) -> Dim:
    """Returns `elements(*s)` or `rank(*s)` of a row variable."""
    symbol = row.sizes.get(function)
    if symbol is None:
        symbol = row.sizes[function] = Sym(f"{function}(*{row.name})")
        _ROWS[symbol] = function, row
    return Poly({(symbol,): 1}, 0)


def row_size_of(symbol: Sym) -> tuple[str, RowVar] | None:
    """Returns the function and the row variable of a symbol; None for any other symbol."""
    return _ROWS.get(symbol)


def size_of_axes(function: str, axes: Iterable[Any]) -> Dim:
    """Returns the number of elements or of axes of a row, which may contain row variables."""
    parts = [_part(function, axis) for axis in axes]
    return sum(parts) if function == RANK else reduce(mul, parts, 1)


def _part(function: str, axis: Any) -> Any:
    if type(axis) is RowVar:
        return size_of_row(function, axis)
    return 1 if function == RANK else size_in(axis)


def row_size_values(symbols: Iterable[Sym], rows: Mapping[Any, Any]) -> dict[Sym, Dim]:
    """Returns the values of the symbols that belong to one of these row variables."""
    values: dict[Sym, Dim] = {}
    for symbol in symbols if _ROWS else ():
        function, row = _ROWS.get(symbol, ("", None))
        if row is not None and row in rows:
            values[symbol] = size_of_axes(function, rows[row])
    return values


def bind_row_sizes(symbols: Iterable[Sym], sizes: MutableMapping[Any, Any]) -> None:
    """Adds the values of the symbols that belong to bound row variables."""
    sizes.update(row_size_values(symbols, sizes))


def sizes_of_rows(variables: Iterable[Any]) -> list[Sym]:
    """Returns the existing symbols that belong to the row variables among these variables."""
    rows = [variable for variable in variables if type(variable) is RowVar]
    return [symbol for row in rows for symbol in row.sizes.values()]
