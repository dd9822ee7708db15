"""What constraints speak of: sizes, rows of axes, row variables and ragged sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeAlias

from structir.ir.axes import RowVar
from structir.ir.polynomial import Dim, Poly, Sym

__all__ = [
    "RAGGED",
    "RAGGED_SYMS",
    "Element",
    "Row",
    "RowVar",
    "Variable",
    "is_ragged",
    "known_ends",
    "ragged",
    "row_vars",
    "sizes",
    "symbol_of",
    "variables",
]

Element: TypeAlias = Dim | RowVar
Row: TypeAlias = tuple[Element, ...]
Variable: TypeAlias = Sym | RowVar

RAGGED_SYMS: set[Sym] = set()


@cache
def ragged(name: str = "") -> Poly:
    """The size of an axis whose length differs along the other axes; one for each name."""
    symbol = Sym(f"*:{name}" if name else "*")
    RAGGED_SYMS.add(symbol)
    return Poly({(symbol,): 1}, 0)


RAGGED = ragged()


def symbol_of(dim: Dim) -> Sym | None:
    """The variable that a size is, when it is nothing more."""
    if type(dim) is not Poly or dim.constant or len(dim.terms) != 1:
        return None
    for monomial, coefficient in dim.terms.items():
        if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
            return monomial[0]
    return None


def is_ragged(dim: Dim) -> bool:
    """Whether a size is ragged."""
    return type(dim) is Poly and symbol_of(dim) in RAGGED_SYMS


def row_vars(row: Iterable[Element]) -> list[RowVar]:
    """The row variables in a row, in order."""
    return [element for element in row if type(element) is RowVar]


def sizes(row: Iterable[Element]) -> list[Dim]:
    """The axes of a row that are known to be there, in order."""
    return [element for element in row if not isinstance(element, RowVar)]


def known_ends(row: Row) -> tuple[int, int]:
    """How many axes stand before the first row variable and after the last one."""
    places = [k for k, element in enumerate(row) if type(element) is RowVar]
    return (places[0], len(row) - places[-1] - 1) if places else (len(row), len(row))


def variables(dim: Dim) -> Iterator[Sym]:
    """The size variables in a size, those inside its opaque functions included."""
    if type(dim) is int:
        return
    for monomial in dim.terms:  # type: ignore[union-attr]
        for atom in monomial:
            if type(atom) is Sym:
                yield atom
            else:
                for argument in atom.args:
                    yield from variables(argument)
