"""Constraints that follow from conditions on sizes (`R.require`, `match_cast`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from structir.ir import dims
from structir.ir.axes import RowVar
from structir.ir.binding_dims import ELEMENTS, RANK, row_size_of
from structir.ir.dims import Dim, Opaque, Poly, Sym, as_atom, as_dim, as_sym
from structir.solver.constraints.constraint import (
    Constraint,
    DimEq,
    Divides,
    Ge,
    Ne,
    Prod,
    RankLe,
)

_CONSTRAINTS: dict[str, Callable[[Dim, Dim], Constraint]] = {
    "lt": lambda lhs, rhs: Ge(rhs - lhs, 1),
    "le": lambda lhs, rhs: Ge(rhs - lhs, 0),
    "ne": Ne,
}


def constraints_of_condition(condition: Dim) -> Iterator[Constraint]:
    """Yields the constraints that hold if a condition does."""
    atom = as_atom(condition)
    if type(atom) is not Opaque:
        return
    yield from _row_constraints(condition)
    if any((row_size_of(symbol) or ("",))[0] == RANK for symbol in dims.syms(condition)):
        return  # a rank is not a size: it may be 0
    lhs, rhs = atom.args
    if atom.fn == "eq":
        yield from _equality_constraints(lhs, rhs)
    elif atom.fn in _CONSTRAINTS:
        yield _CONSTRAINTS[atom.fn](lhs, rhs)


def _row_constraints(condition: Dim) -> Iterator[Constraint]:
    """Yields the constraints on the row variables whose elements or rank a condition compares."""
    for symbol in dims.syms(condition):
        function, row = row_size_of(symbol) or ("", None)
        if row is None:
            continue
        if function == ELEMENTS:
            yield Prod((row,), (as_dim(symbol),))
        else:
            yield from _rank_constraints(condition, symbol, row)


def _rank_constraints(condition: Dim, symbol: Sym, row: RowVar) -> Iterator[Constraint]:
    """Yields the bounds of a rank that is compared with a number."""
    atom = as_atom(condition)
    if type(atom) is not Opaque:
        return
    lhs, rhs = atom.args
    strict = atom.fn == "lt"
    if as_sym(lhs) is symbol and type(rhs) is int and atom.fn in ("le", "lt", "eq"):
        yield RankLe((row,), (1,) * max(rhs - strict, 0))
    if as_sym(rhs) is symbol and type(lhs) is int and atom.fn in ("le", "lt", "eq"):
        yield RankLe((1,) * max(lhs + strict, 0), (row,))
    number = lhs if type(lhs) is int else rhs
    if atom.fn == "eq" and type(number) is int:
        yield RankLe((1,) * number, (row,))
        yield RankLe((row,), (1,) * number)


def _equality_constraints(lhs: Dim, rhs: Dim) -> Iterator[Constraint]:
    """Yields the constraints of an equality; a remainder of 0 becomes divisibility."""
    for side, value in ((lhs, rhs), (rhs, lhs)):
        atom = as_atom(side)
        if type(atom) is Opaque and atom.fn == "floormod" and type(atom.args[1]) is int:
            yield Divides(atom.args[1], atom.args[0] - value)
            if value != 0:
                break
            return
    yield DimEq(lhs, rhs)


def allows_zero(condition: Dim) -> bool:
    """Returns whether a condition is `0 <= size`: sizes then have no lower bound of 1."""
    atom = as_atom(condition)
    return type(atom) is Opaque and atom.fn == "le" and atom.args[0] == 0


def non_negative(axes: object) -> Iterator[Constraint]:
    """Yields `size >= 0` for every computed size of these axes."""
    for dim in axes if type(axes) is tuple else ():
        if type(dim) is Poly and as_sym(dim) is None:
            yield Ge(dim, 0)
