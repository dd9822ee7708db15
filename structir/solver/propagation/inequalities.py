"""Combines linear inequalities of sizes: contradictions, equalities and bounds that they imply.

Two inequalities in which a variable has opposite signs are added so that the variable vanishes
(Fourier-Motzkin elimination), as long as the sum has no more terms than either.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import attrs

from structir.ir.polynomial import Dim, Monomial, Poly
from structir.solver.constraints.constraint import Ge
from structir.solver.domains.reasons import Reason
from structir.solver.domains.terms import RAGGED_SYMS, variables
from structir.solver.propagation.arithmetic import equate, require_at_least
from structir.solver.propagation.store import ConstraintStore

MAX_INEQUALITIES = 200  # asserted and derived ones together


@attrs.frozen
class _Inequality:
    """`form >= least`, where the form has no constant."""

    form: Poly
    least: int
    reason: Reason = attrs.field(eq=False)


def combine_inequalities(store: ConstraintStore) -> bool:
    """Concludes what pairs of inequalities imply; returns whether something new follows.

    Raises Conflict if no integers satisfy them.
    """
    version = store.version
    inequalities = list(_linear_inequalities(store))
    lower_bounds = {i.form: i.least for i in inequalities}
    index = 0
    while index < len(inequalities):
        current = inequalities[index]
        for other in inequalities[:index]:
            for total, least in _sums(current, other):
                reason = (current.reason, other.reason)
                if type(total) is int:
                    _conclude_constant(store, current, least, reason)
                    continue
                derived = _Inequality(total, least, reason)  # type: ignore[arg-type]
                known = lower_bounds.get(derived.form)
                if (known is None or known < least) and len(inequalities) < MAX_INEQUALITIES:
                    lower_bounds[derived.form] = least
                    inequalities.append(derived)
                    _conclude_bound(store, derived)
        index += 1
    store.run()
    return store.version != version


def _linear_inequalities(store: ConstraintStore) -> Iterator[_Inequality]:
    for active in store.open:
        constraint = active.constraint
        if type(constraint) is not Ge:
            continue
        store.begin(active.reason)
        form = store.dim(constraint.dim)
        if type(form) is not Poly or any(len(m) > 1 for m in form.terms):
            continue
        if not any(symbol in RAGGED_SYMS for symbol in variables(form)):
            total, least = _normalized(form, constraint.least)
            yield _Inequality(total, least, store.reason())  # type: ignore[arg-type]


def _normalized(form: Dim, least: int) -> tuple[Dim, int]:
    """Returns `form >= least` without a constant and without a common factor."""
    if type(form) is int:
        return 0, least - form
    poly: Poly = form  # type: ignore[assignment]
    common = gcd(*poly.terms.values())
    terms = {m: c // common for m, c in poly.terms.items()}
    return Poly(terms, 0), -(-(least - poly.constant) // common)


def _sums(first: _Inequality, second: _Inequality) -> Iterator[tuple[Dim, int]]:
    """Yields the sums of multiples of two inequalities in which a variable vanishes."""
    limit = max(len(first.form.terms), len(second.form.terms))
    for monomial in _opposite(first.form, second.form):
        factor, other = abs(second.form.terms[monomial]), abs(first.form.terms[monomial])
        total = first.form * factor + second.form * other
        if type(total) is not Poly or len(total.terms) <= limit:
            yield _normalized(total, first.least * factor + second.least * other)


def _opposite(first: Poly, second: Poly) -> Iterator[Monomial]:
    for monomial in first.terms.keys() & second.terms.keys():
        if (first.terms[monomial] > 0) != (second.terms[monomial] > 0):
            yield monomial


def _conclude_constant(
    store: ConstraintStore, inequality: _Inequality, least: int, reason: Reason
) -> None:
    """Concludes from `0 >= least`; if `least` is 0, each inequality is an equality."""
    store.begin(reason)
    if least > 0:
        raise store.conflict("no sizes satisfy these inequalities", "E0403")
    key = ("tight", inequality.form, inequality.least)
    if least == 0 and key not in store.derived_once:
        store.set(store.derived_once, key, None)
        equate(store, inequality.form, inequality.least)


def _conclude_bound(store: ConstraintStore, inequality: _Inequality) -> None:
    """Tightens the bound of a variable that an inequality consists of."""
    if len(inequality.form.terms) == 1:
        store.begin(inequality.reason)
        require_at_least(store, inequality.form, inequality.least)
