"""Narrows index sets to the preimage of a set of index values.

`narrow(form, target, sets)` restricts each index variable to the positions at which the form can be
in the target. The result is exact if each index variable occurs once in the form, and otherwise may
be a superset.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

from structir.projections.affine_forms import (
    POINTS,
    AffineForm,
    Node,
    node_values,
    value_at,
    values,
)
from structir.projections.position_sets import EMPTY, PositionSet, of, only

Constraint = tuple[AffineForm, PositionSet]  # an index and the set of its permitted values


def narrow(form: AffineForm, target: PositionSet, sets: list[PositionSet]) -> bool:
    """Restricts the sets to the positions at which the form can be in the target.

    Returns False if there are none. Each index variable is narrowed in turn, with the others
    ranging over their sets.
    """
    offset, terms, repeats = form
    if not terms:
        return bool(target.common(only(offset)))
    if offset:
        target = target.shifted(-offset)
    if len(terms) == 1 and isinstance(terms[0][1], int):
        return _narrow_node(terms[0][1], target.over(terms[0][0]), sets)
    if repeats:
        return _narrow_repeated(form, target.shifted(offset), sets)
    return _narrow_sum(terms, target, sets)


def _narrow_sum(
    terms: tuple[tuple[int, Node], ...], target: PositionSet, sets: list[PositionSet]
) -> bool:
    if len(terms) == 1:
        return _narrow_node(terms[0][1], target.over(terms[0][0]), sets)
    parts = [node_values(node, sets).times(factor) for factor, node in terms]
    for k, (factor, node) in enumerate(terms):
        others = reduce(PositionSet.plus, [p for j, p in enumerate(parts) if j != k])
        reach = target.plus(others.mirrored())
        if not _narrow_node(node, reach.over(factor), sets):
            return False
    return True


def _narrow_repeated(form: AffineForm, target: PositionSet, sets: list[PositionSet]) -> bool:
    """Narrows forms with a repeated loop index by enumeration, or to a superset."""
    narrowed = enumerate_preimage([(form, target)], sets)
    if narrowed is None:
        nonempty = _narrow_sum(form.terms, target.shifted(-form.offset), sets)
        for k in form.index_vars:
            sets[k] = sets[k].with_exactness(False) if sets[k] else EMPTY
        return nonempty
    sets[:] = [
        new if old.exact or not new else new.with_exactness(False)
        for new, old in zip(narrowed, sets, strict=True)
    ]
    return all(sets)


def enumerate_preimage(
    constraints: Sequence[Constraint], sets: Sequence[PositionSet]
) -> list[PositionSet] | None:
    """Returns the positions of each index variable at which all constraints hold for some positions
    of the others, by enumeration of all points; None if there are too many.
    """
    moving = sorted({k for form, _ in constraints for k in form.index_vars if sets[k].size > 1})
    if prod(sets[k].size for k in moving) > POINTS:
        return None
    point = [s.start for s in sets]
    solutions: list[tuple[int, ...]] = []
    for positions in itertools.product(*[list(sets[k].elements()) for k in moving]):
        for index_var, position in zip(moving, positions, strict=True):
            point[index_var] = position
        if all([target.has(value_at(form, point)) for form, target in constraints]):
            solutions.append(positions)
    if not solutions:
        return [EMPTY for _ in sets]
    exact = all([target.exact for _, target in constraints])
    preimage = list(sets)
    for column, index_var in enumerate(moving):
        preimage[index_var] = of(sorted({positions[column] for positions in solutions}), exact)
    return preimage


def _narrow_node(node: Node, target: PositionSet, sets: list[PositionSet]) -> bool:
    if isinstance(node, int):
        sets[node] = sets[node].common(target)
        return bool(sets[node])
    if not target:
        return False
    if node.table:
        positions = values(node.args[0], sets)
        inside = [k for k in positions.elements() if target.has(node.table[k])]
        return narrow(node.args[0], of(inside, positions.exact), sets)
    narrow_args = PREIMAGES.get(node.fn)
    nonempty = narrow_args is None or narrow_args(node.args, target, sets)
    constant_divisor = node.fn in ("floordiv", "floormod") and not node.args[1].terms
    if nonempty and not constant_divisor and not node_values(node, sets).within(target):
        for index_var in AffineForm(0, ((1, node),)).index_vars:
            sets[index_var] = sets[index_var].with_exactness(False)
    return nonempty


def _narrow_quotient(
    args: tuple[AffineForm, ...], target: PositionSet, sets: list[PositionSet]
) -> bool:
    dividend, divisor = args
    if divisor.terms or divisor.offset <= 0:
        return True
    q = divisor.offset
    return narrow(dividend, target.times(q).plus(PositionSet(0, q)), sets)


def _narrow_remainder(
    args: tuple[AffineForm, ...], target: PositionSet, sets: list[PositionSet]
) -> bool:
    dividend, divisor = args
    if divisor.terms or divisor.offset <= 0:
        return True
    q = divisor.offset
    rounds = values(dividend, sets).floored(q)
    return narrow(dividend, rounds.times(q).plus(target.clipped(0, q)), sets)


def _narrow_maximum(
    args: tuple[AffineForm, ...], target: PositionSet, sets: list[PositionSet]
) -> bool:
    """Narrows the arguments of a minimum or maximum."""
    arg_values = [values(a, sets) for a in args]
    for k, (form, arg_set) in enumerate(zip(args, arg_values, strict=True)):
        others = max(s.stop for j, s in enumerate(arg_values) if j != k)
        reach = PositionSet(min(arg_set.start, target.start), target.stop)
        if others <= target.start:
            reach = target
        if not narrow(form, reach, sets):
            return False
    return True


def _narrow_minimum(
    args: tuple[AffineForm, ...], target: PositionSet, sets: list[PositionSet]
) -> bool:
    negated = [AffineForm(-a.offset, tuple([(-f, n) for f, n in a.terms]), a.repeats) for a in args]
    return _narrow_maximum(tuple(negated), target.mirrored(), sets)


PREIMAGES: dict[str, Callable[[tuple[AffineForm, ...], PositionSet, list[PositionSet]], bool]] = {
    "floordiv": _narrow_quotient,
    "floormod": _narrow_remainder,
    "min": _narrow_minimum,
    "max": _narrow_maximum,
}
