"""Solves side conditions on sizes: inequality, divisibility, and sums along an axis."""

from __future__ import annotations

from math import gcd

from structir.ir.polynomial import Dim, Sym
from structir.solver.constraints.constraint import Divides, Ne, Sum
from structir.solver.domains.intervals import differ
from structir.solver.domains.terms import RAGGED, is_ragged, symbol_of
from structir.solver.propagation.arithmetic import (
    equate,
    fresh,
    tighten_lower_bound,
    tighten_upper_bound,
)
from structir.solver.propagation.store import ConstraintStore, rule


@rule(Ne)
def _(store: ConstraintStore, constraint: Ne) -> bool:
    left, right = store.dim(constraint.left), store.dim(constraint.right)
    if left == right:
        raise store.conflict("the two sizes must differ, but are equal", "E0404")
    if differ(store, left, right):
        return True
    excluded = _excluded_value(left - right)
    if excluded is None:
        return False
    symbol, value = excluded
    if value is None:
        return True
    if value == store.low(symbol):
        tighten_lower_bound(store, symbol, value + 1)
        return True
    if value == store.high(symbol):
        tighten_upper_bound(store, symbol, value - 1)
        return True
    return False


def _excluded_value(form: Dim) -> tuple[Sym, int | None] | None:
    """Returns the variable and the root of a form with one variable.

    The root is None if it is no integer.
    """
    if type(form) is int or len(form.terms) != 1:  # type: ignore[union-attr]
        return None
    ((monomial, factor),) = form.terms.items()  # type: ignore[union-attr]
    symbol = monomial[0]
    if len(monomial) > 1 or not isinstance(symbol, Sym):
        return None
    value, rest = divmod(-form.constant, factor)  # type: ignore[union-attr]
    return symbol, None if rest else value


@rule(Divides)
def _(store: ConstraintStore, constraint: Divides) -> bool:
    factor, dim = constraint.factor, store.dim(constraint.dim)
    if type(dim) is int:
        if dim % factor:
            raise store.conflict(f"expected a multiple of {factor}, found {dim}", "E0404")
        return True
    terms = dim.terms  # type: ignore[union-attr]
    if all(c % factor == 0 for c in (*terms.values(), dim.constant)):  # type: ignore[union-attr]
        return True
    if dim.constant % gcd(factor, *terms.values()):  # type: ignore[union-attr]
        raise store.conflict(f"the size is never a multiple of {factor}", "E0404")
    quotient = fresh()
    equate(store, dim, quotient * factor)
    return True


@rule(Sum)
def _(store: ConstraintStore, constraint: Sum) -> bool:
    parts = [store.dim(part) for part in constraint.parts]
    ragged_parts = [part for part in parts if is_ragged(part)]
    if ragged_parts:  # the lengths of a sum are those of no part of it
        equate(store, constraint.total, RAGGED if parts[1:] else ragged_parts[0])
        return True
    total: Dim = 0
    for part in parts:
        total = total + part
    known_total = store.dim(constraint.total)
    open_parts = [part for part in parts if symbol_of(part) is not None]
    if is_ragged(known_total):
        if not open_parts:
            raise store.conflict("expected a ragged part in the sum of a ragged axis", "E0405")
        if len(open_parts) == 1:
            equate(store, open_parts[0], RAGGED if parts[1:] else known_total)
            return True
        return False
    if store.may_be_ragged and open_parts:
        return False  # a part may become ragged, and then the sum is ragged
    equate(store, known_total, total)
    return True
