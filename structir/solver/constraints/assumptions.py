"""Constraints that follow from conditions on sizes (`R.require`, `match_cast`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from structir.ir.dims import Dim, Opaque, Poly, as_atom, as_sym
from structir.solver.constraints.constraint import Constraint, DimEq, Divides, Ge, Ne

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
    lhs, rhs = atom.args
    if atom.fn == "eq":
        yield from _equality_constraints(lhs, rhs)
    elif atom.fn in _CONSTRAINTS:
        yield _CONSTRAINTS[atom.fn](lhs, rhs)


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
