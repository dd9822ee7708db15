"""Terms of constraints: sizes, rows of axes, row variables and ragged sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

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
    "replace_row",
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
    """Returns the size of an axis whose length differs along the other axes, one per name."""
    symbol = Sym(f"*:{name}" if name else "*")
    RAGGED_SYMS.add(symbol)
    return Poly({(symbol,): 1}, 0)


RAGGED = ragged()


def symbol_of(dim: Dim) -> Sym | None:
    """Returns the variable that a size consists of, or None."""
    if type(dim) is not Poly or dim.constant or len(dim.terms) != 1:
        return None
    for monomial, coefficient in dim.terms.items():
        if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
            return monomial[0]
    return None


def is_ragged(dim: Dim) -> bool:
    """Returns whether a size is ragged."""
    return type(dim) is Poly and symbol_of(dim) in RAGGED_SYMS


def row_vars(row: Iterable[Element]) -> list[RowVar]:
    """Returns the row variables of a row, in order."""
    return [element for element in row if type(element) is RowVar]


def replace_row(row: tuple[Any, ...], part: tuple[Any, ...], variable: RowVar) -> tuple[Any, ...]:
    """Returns a row with a row variable for these consecutive elements, if it has them."""
    for start in range(len(row) - len(part) + 1):
        if row[start : start + len(part)] == part:
            return (*row[:start], variable, *row[start + len(part) :])
    return row


def sizes(row: Iterable[Element]) -> list[Dim]:
    """Returns the axes of a row outside its row variables, in order."""
    return [element for element in row if not isinstance(element, RowVar)]


def known_ends(row: Row) -> tuple[int, int]:
    """Returns the numbers of axes before the first row variable and after the last one."""
    indices = [k for k, element in enumerate(row) if type(element) is RowVar]
    return (indices[0], len(row) - indices[-1] - 1) if indices else (len(row), len(row))


def variables(dim: Dim) -> Iterator[Sym]:
    """Yields the size variables of a size, those inside its opaque functions included."""
    if type(dim) is int:
        return
    for monomial in dim.terms:  # type: ignore[union-attr]
        for atom in monomial:
            if type(atom) is Sym:
                yield atom
            else:
                for argument in atom.args:
                    yield from variables(argument)


def weight(dim: Dim) -> int:
    """Returns the number of variables, constants and functions in a size, as a measure of its
    length."""
    if type(dim) is int:
        return 1
    atoms = [atom for monomial in dim.terms for atom in monomial]  # type: ignore[union-attr]
    nested = [weight(arg) for atom in atoms if type(atom) is not Sym for arg in atom.args]
    return len(atoms) + sum(nested) + bool(dim.constant)  # type: ignore[union-attr]
