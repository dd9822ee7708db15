"""Public interface of dims: construction, arithmetic, proofs and text."""

from __future__ import annotations

from structir.ir.dim_choice import BUILT, compare, dim_max, dim_min, is_comparison, select
from structir.ir.dim_division import ceildiv, exact_quotient, floordiv, floormod, linear
from structir.ir.dim_proofs import at_least, equal, evaluate
from structir.ir.dim_text import python_text, text
from structir.ir.polynomial import (
    Atom,
    Dim,
    Monomial,
    Opaque,
    Poly,
    Sym,
    as_atom,
    as_dim,
    as_sym,
    bounds,
    substitute,
    sym,
    syms,
)

__all__ = [
    "Atom",
    "Dim",
    "Monomial",
    "Opaque",
    "Poly",
    "Sym",
    "as_atom",
    "as_dim",
    "as_sym",
    "at_least",
    "bounds",
    "ceildiv",
    "compare",
    "dim_max",
    "dim_min",
    "equal",
    "evaluate",
    "exact_quotient",
    "floordiv",
    "floormod",
    "is_comparison",
    "is_condition",
    "linear",
    "python_text",
    "select",
    "substitute",
    "sym",
    "syms",
    "text",
]


def is_condition(dim: Dim) -> bool:
    """Returns whether the dim is a comparison, which is 1 where it holds, else 0."""
    return getattr(as_atom(dim), "fn", None) in BUILT
