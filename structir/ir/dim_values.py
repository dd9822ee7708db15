"""Values of dims for values of their variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.display_names import display_name, one_message
from structir.ir.polynomial import Dim, Opaque, Poly, Sym, syms

FUNCTIONS: dict[str, Callable[..., int]] = {  # by the names of opaque functions
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "min": min,
    "max": max,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}


def evaluate(dim: Dim, values: Mapping[Sym, int]) -> int:
    """Returns the value of a dim for these values of its variables."""
    if type(dim) is not Poly:
        return dim
    total = dim.constant
    for monomial, coefficient in dim.terms.items():
        for atom in monomial:
            coefficient *= values[atom] if type(atom) is Sym else _atom_value(atom, values)
        total += coefficient
    return total


def _atom_value(atom: Opaque, values: Mapping[Sym, int]) -> int:
    if atom.fn == "select":
        condition, chosen, other = atom.args
        return evaluate(chosen if evaluate(condition, values) else other, values)
    args = [evaluate(argument, values) for argument in atom.args]
    if 0 in args[1:] and atom.fn in ("floordiv", "floormod"):
        raise _zero_divisor(Poly({(atom,): 1}, 0), values)
    return int(FUNCTIONS[atom.fn](*args))


def _zero_divisor(quotient: Poly, values: Mapping[Sym, int]) -> DiagnosticError:
    names = sorted(syms(quotient), key=lambda s: s.order)
    with one_message():
        assignment = ", ".join([f"{display_name(s)} = {values[s]}" for s in names])
        message = f"division by zero in the size {quotient}, with {assignment}"
    return DiagnosticError(Diagnostic(message))
