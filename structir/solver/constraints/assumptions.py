"""Facts that a program requires of its sizes, as constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from structir.ir.dims import Dim, Opaque, Poly, as_atom, as_sym
from structir.solver.constraints.constraint import Constraint, DimEq, Divides, Ge, Ne

_CONSTRAINTS: dict[str, Callable[[Dim, Dim], Constraint]] = {
    "lt": lambda one, other: Ge(other - one, 1),
    "le": lambda one, other: Ge(other - one, 0),
    "ne": Ne,
}


def constraints_of_condition(fact: Dim) -> Iterator[Constraint]:
    """What holds where a condition does."""
    atom = as_atom(fact)
    if type(atom) is not Opaque:
        return
    one, other = atom.args
    if atom.fn == "eq":
        yield from _equal(one, other)
    elif atom.fn in _CONSTRAINTS:
        yield _CONSTRAINTS[atom.fn](one, other)


def _equal(one: Dim, other: Dim) -> Iterator[Constraint]:
    """Two sizes are equal; a remainder of nothing is said as such."""
    for rest, value in ((one, other), (other, one)):
        atom = as_atom(rest)
        if type(atom) is Opaque and atom.fn == "floormod" and type(atom.args[1]) is int:
            yield Divides(atom.args[1], atom.args[0] - value)
            if value != 0:
                break
            return
    yield DimEq(one, other)


def allows_zero(fact: Dim) -> bool:
    """Whether a condition only says that a size may be 0: then none is taken to be at least 1."""
    atom = as_atom(fact)
    return type(atom) is Opaque and atom.fn == "le" and atom.args[0] == 0


def non_negative(axes: object) -> Iterator[Constraint]:
    """That the sizes are sizes, where they are computed from others."""
    for dim in axes if type(axes) is tuple else ():
        if type(dim) is Poly and as_sym(dim) is None:
            yield Ge(dim, 0)
