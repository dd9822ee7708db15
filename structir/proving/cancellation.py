"""Sums in which numbers cancel: the digits that are lost remain as 0 times an unknown number.

`(y + 1e-6 + 65536) - 65536` is `y + 1e-6` over the reals, but its digits beyond those of 65536 are
lost. The coefficient of a monomial cancels if it is much smaller than an addend of it. Whether it
does is decided for each way in which the conditions of the monomials hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from structir.ir.dtype import is_float
from structir.proving.sums import (
    PRECISION,
    Monomial,
    Monomials,
    add_to,
    by_key,
    by_values,
    collect,
    unknown_number,
)
from structir.proving.terms import NonNegative, NormalForm, ScalarTerm

MAX_CONDITIONS = 8  # of monomials that differ in conditions only
LOST_DIGITS = 3  # a sum may lose the bits of its dtype divided by this number


def sum_of(addends: Iterable[NormalForm], dtype: str, facts: Any) -> NormalForm:
    """Returns the sum of normal forms, with `0 * rounded()` where numbers cancel."""
    total: Monomials = {}
    for addend in addends:
        lost = cancelled(total, addend.terms, dtype, facts)
        add_to(total, [*addend.terms, *lost], 1)
    return collect(total, dtype)


def cancelled(
    total: Monomials, addend: Iterable[tuple[Monomial, Any]], dtype: str, facts: Any
) -> list[tuple[Monomial, int]]:
    """Returns multiples 0 of monomials for the digits that floats lose when they are added."""
    if not total or not is_float(dtype):
        return []
    ours, lost = dict(by_values(total.items())), []
    for numbers, theirs in by_values(addend):
        if numbers in ours:
            rounded = *numbers, unknown_number(dtype)
            regions = _regions(ours[numbers], theirs, dtype, facts)
            lost += [(tuple(sorted((*region, *rounded), key=by_key)), 0) for region in regions]
    return lost


def _regions(ours: Any, theirs: Any, dtype: str, facts: Any) -> list[Monomial]:
    """Returns the conditions under which two coefficients cancel."""
    atoms = sorted({c for own, _ in (*ours, *theirs) for c in own}, key=by_key)
    if len(atoms) > MAX_CONDITIONS:
        return [()]
    totals = {own: factor for own, factor in ours}
    add_to(totals, theirs, 1)
    vanished = [own for own, factor in totals.items() if not factor]  # these remain in the sum
    least = 2 ** -(PRECISION.get(dtype, (1,))[0] // LOST_DIGITS)
    regions = []
    for truths in itertools.product((False, True), repeat=len(atoms)):
        region = tuple([atom for atom, truth in zip(atoms, truths, strict=True) if truth])
        a, b = [sum([c for own, c in group if {*own} <= {*region}]) for group in (ours, theirs)]
        if not a * b < 0 or abs(a + b) >= least * max(abs(a), abs(b)):
            continue
        is_kept = a + b == 0 and any([{*own} <= {*region} for own in vanished])
        if not is_kept and not contradict(atoms, {*region}, facts):
            regions.append(region)
    return regions


def contradict(atoms: list[ScalarTerm], holds: set[ScalarTerm], facts: Any) -> bool:
    """Returns whether conditions on sizes cannot hold and fail like this."""
    for atom in atoms:
        if isinstance(atom, NonNegative):
            facts = facts.assume(atom.dim if atom in holds else -atom.dim - 1)
    return bool(facts.contradict)
