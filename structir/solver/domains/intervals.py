"""Intervals of sizes, and the tests that follow from them and from divisibility."""

from __future__ import annotations

from collections import Counter
from math import gcd

from structir.ir.polynomial import Atom, Dim, Interval, Monomial, Opaque, Poly, Sym, of_terms
from structir.solver.domains.terms import is_ragged, symbol_of
from structir.solver.propagation.store import ConstraintStore


def interval(store: ConstraintStore, dim: Dim) -> Interval:
    """Returns the least and the greatest value of a size; None for no limit."""
    if type(dim) is int:
        return dim, dim
    low: int | None = dim.constant  # type: ignore[union-attr]
    high: int | None = low
    for monomial, coefficient in dim.terms.items():  # type: ignore[union-attr]
        least, greatest = monomial_interval(store, monomial)
        if coefficient < 0:
            least, greatest = greatest, least
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or greatest is None else high + coefficient * greatest
    return low, high


def monomial_interval(store: ConstraintStore, monomial: Monomial) -> Interval:
    """Returns the least and the greatest value of a product; None for no limit."""
    low, high = _atom_interval(store, monomial[0])
    for atom in monomial[1:]:
        least, greatest = _atom_interval(store, atom)
        if low is None or low < 0 or least is None or least < 0:
            return None, None
        low *= least
        high = None if high is None or greatest is None else high * greatest
    return low, high


def _atom_interval(store: ConstraintStore, atom: Atom) -> Interval:
    if type(atom) is Sym:
        return store.low(atom), store.high(atom)
    return _opaque_interval(store, atom)


def _opaque_interval(store: ConstraintStore, atom: Opaque) -> Interval:
    ranges = [interval(store, store.dim(argument)) for argument in atom.args]
    match atom.fn, atom.args:
        case "floordiv", (_, int(divisor)) if divisor > 0:
            low, high = ranges[0]
            return (
                None if low is None else low // divisor,
                None if high is None else high // divisor,
            )
        case "floormod", (_, int(divisor)) if divisor > 0:
            return 0, divisor - 1
        case "max", _:
            lows = [low for low, _ in ranges if low is not None]
            highs = [high for _, high in ranges if high is not None]
            return max(lows, default=None), max(highs) if len(highs) == len(ranges) else None
        case "min", _:
            lows = [low for low, _ in ranges if low is not None]
            highs = [high for _, high in ranges if high is not None]
            return min(lows) if len(lows) == len(ranges) else None, min(highs, default=None)
    return atom.interval


def proves_not_one(store: ConstraintStore, dim: Dim) -> bool:
    """Returns whether a size is provably not 1, so that it does not broadcast."""
    if type(dim) is int:
        return dim != 1
    mark = len(store.used)
    low, high = interval(store, dim)
    if (low is not None and low >= 2) or (high is not None and high < 1):
        return True
    del store.used[mark:]
    return False


def differ(store: ConstraintStore, lhs: Dim, rhs: Dim) -> bool:
    """Returns whether two sizes are provably different; adds to `used` only then."""
    if type(lhs) is int and type(rhs) is int:
        return lhs != rhs
    if is_ragged(lhs) or is_ragged(rhs):
        other = rhs if is_ragged(lhs) else lhs
        return type(other) is int or (not is_ragged(other) and symbol_of(other) is None)
    form = lhs - rhs
    if type(form) is int:
        return form != 0
    mark = len(store.used)
    if _is_never_zero(store, primitive(store, form)):  # type: ignore[arg-type]
        return True
    del store.used[mark:]
    return False


def _is_never_zero(store: ConstraintStore, form: Dim) -> bool:
    """Returns whether a polynomial has no root within the bounds of its variables."""
    if type(form) is int:
        return form != 0
    if form.constant % gcd(*form.terms.values()):  # type: ignore[operator, union-attr]
        return True
    low, high = interval(store, form)
    return (low is not None and low > 0) or (high is not None and high < 0)


def primitive(store: ConstraintStore, form: Poly) -> Dim:
    """Returns a polynomial divided by the common factor of its terms that is provably positive."""
    if form.constant:
        return form
    shared: Counter[Atom] | None = None
    for monomial in form.terms:
        counted = Counter(monomial)
        shared = counted if shared is None else shared & counted
        if not shared:
            return form
    shared = Counter({a: n for a, n in (shared or Counter()).items() if _is_positive(store, a)})
    if not shared:
        return form
    constant, terms = 0, {}
    for monomial, coefficient in form.terms.items():
        rest = tuple(_divide_out(monomial, shared))
        if rest:
            terms[rest] = coefficient
        else:
            constant = coefficient
    return of_terms(terms, constant)


def _is_positive(store: ConstraintStore, atom: Atom) -> bool:
    low, _ = _atom_interval(store, atom)
    return low is not None and low >= 1


def _divide_out(monomial: Monomial, shared: Counter[Atom]) -> list[Atom]:
    unused, remaining = shared.copy(), []
    for atom in monomial:
        if unused[atom]:
            unused[atom] -= 1
        else:
            remaining.append(atom)
    return remaining
