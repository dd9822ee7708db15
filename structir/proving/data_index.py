"""Indices that are read from data, as dims: unknown functions of index variables and sizes.

`x[indices[i]]` has the index `data(number, i)`, where the number identifies the term `indices[i]`
as a function of `i`. Equal numbers and arguments mean equal indices.
"""

from __future__ import annotations

from collections.abc import Callable

from structir.ir import dims
from structir.ir.dims import Dim, Opaque, Sym
from structir.ir.dtype import is_int
from structir.ir.polynomial import builds, opaque
from structir.proving.laws import widens
from structir.proving.sums import fits
from structir.proving.terms import (
    ApplyTerm,
    LiteralTerm,
    NonNegative,
    ScalarTerm,
    SizeTerm,
    substituted,
)

PLACES = [Sym(f"argument{k}") for k in range(32)]
NUMBERS: dict[ScalarTerm, int] = {}  # by term, with places for its variables
TEMPLATES: dict[int, ScalarTerm] = {}  # by number
ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


@builds("data")
def data(*args: Dim) -> Dim:
    """Returns an unknown function of dims; the first argument identifies it."""
    return opaque("data", args, (None, None))


def as_index(term: ScalarTerm) -> Dim:
    """Returns an integer term as a dim; int64 indices do not overflow, those of narrower dtypes
    may."""
    match term:
        case SizeTerm(dim) if fits(dim, term.dtype):
            return dim
        case LiteralTerm(value) if isinstance(value, int):
            return int(value)
        case ApplyTerm("cast", (inner,)) if is_int(inner.dtype) and is_int(term.dtype):
            index = as_index(inner)
            if widens(inner.dtype, term.dtype) or fits(index, term.dtype):
                return index
        case ApplyTerm("select", (NonNegative(dim), then, otherwise)):
            return dims.select(dims.compare("ge", dim, 0), as_index(then), as_index(otherwise))
        case ApplyTerm(fn, (a, b)) if fn in ARITHMETIC:
            index = ARITHMETIC[fn](as_index(a), as_index(b))
            if term.dtype == "int64" or fits(index, term.dtype):
                return index
    variables = sorted(term.free, key=lambda v: v.order)
    template = substituted(
        term, {v: dims.as_dim(p) for v, p in zip(variables, PLACES, strict=False)}
    )
    number = NUMBERS.setdefault(template, len(NUMBERS))
    TEMPLATES.setdefault(number, template)
    return data(number, *map(dims.as_dim, variables))


def argument_term(atom: Opaque) -> ScalarTerm | None:
    """Returns the term whose value an atom of a dim is, if the atom is read from data."""
    if atom.fn != "data":
        return None
    number, *arguments = atom.args
    values = dict(zip(PLACES, arguments, strict=False))
    term: ScalarTerm = substituted(TEMPLATES[number], values)  # type: ignore[index]
    return term
