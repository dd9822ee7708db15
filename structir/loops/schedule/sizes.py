"""Dims as scalar expressions of kernels."""

from __future__ import annotations

from functools import reduce

from structir.ir import dims
from structir.ir.dims import Atom, Dim, Monomial, Opaque
from structir.ir.kernel import Apply, Literal, Scalar, Size

FUNCTIONS = {"floordiv": "floordiv", "floormod": "mod", "min": "min", "max": "max"}


def size(dim: Dim) -> Scalar:
    """Returns a dim as a scalar expression, in the form in which its source is parsed."""
    if isinstance(dim, int):
        return Literal(dim, "int64")
    terms = [_term(monomial, factor) for monomial, factor in dim.terms.items()]
    total = reduce(lambda one, other: Apply("add", (one, other), "int64"), terms)
    if dim.constant:
        total = Apply("add", (total, Literal(dim.constant, "int64")), "int64")
    return total


def _term(monomial: Monomial, factor: int) -> Scalar:
    scalars = [_atom(atom) for atom in monomial]
    if factor != 1:
        scalars.insert(0, Literal(factor, "int64"))
    return reduce(lambda one, other: Apply("mul", (one, other), "int64"), scalars)


def _atom(atom: Atom) -> Scalar:
    """Returns a symbol, or a function of sizes as a scalar operation."""
    if isinstance(atom, Opaque) and atom.fn in FUNCTIONS:
        return Apply(FUNCTIONS[atom.fn], tuple([size(arg) for arg in atom.args]), "int64")
    return Size(dims.as_dim(atom))
