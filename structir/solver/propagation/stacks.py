"""Solves the axes beside a concatenation: sizes are equal there, and rows may be ragged."""

from __future__ import annotations

from structir.solver.constraints.constraint import AxisStack, RowStack
from structir.solver.domains.labels import unify_labels
from structir.solver.domains.ranks import bind_row, equate_ranks, min_rank
from structir.solver.domains.terms import (
    RAGGED,
    Row,
    RowVar,
    is_ragged,
    row_vars,
    sizes,
    symbol_of,
)
from structir.solver.propagation.arithmetic import equate, fresh
from structir.solver.propagation.row_unification import equate_rows
from structir.solver.propagation.store import ConstraintStore, rule


@rule(AxisStack)
def _(store: ConstraintStore, constraint: AxisStack) -> bool:
    total, *parts = map(store.dim, (constraint.total, *constraint.parts))
    if store.labelled and store.is_first_run():
        for part in constraint.parts:
            unify_labels(store, constraint.total, part)
    if len(set(parts)) == 1:
        equate(store, total, parts[0])
        return True
    if any(map(is_ragged, parts)):  # beside it the others have rows of any length
        equate(store, total, RAGGED)
        return True
    unknown = dict.fromkeys([part for part in parts if _may_be_ragged(store, part)])
    if is_ragged(total):
        if not unknown:
            raise store.conflict("expected a ragged part beside a ragged axis", "E0405")
        if len(unknown) == 1:
            equate(store, next(iter(unknown)), RAGGED)
        return len(unknown) == 1
    if unknown and _may_be_ragged(store, total):
        return False
    for part in parts:
        equate(store, total, part)
    return True


def _may_be_ragged(store: ConstraintStore, dim: object) -> bool:
    return store.may_be_ragged and symbol_of(dim) is not None  # type: ignore[arg-type]


@rule(RowStack)
def _(store: ConstraintStore, constraint: RowStack) -> bool:
    rows = [store.row(row) for row in (constraint.total, *constraint.parts)]
    total, *parts = rows
    if len(set(parts)) == 1 or not (store.may_be_ragged or _has_ragged_axis(store, rows)):
        for part in parts:
            equate_rows(store, total, part)
        return True
    if store.is_first_run():
        for part in parts:
            equate_ranks(store, total, part)
    rest = _without_axes(store, _without_axes(store, rows, 0), -1)
    if len(rest[0]) < len(total):
        if any(rest):
            store.repost(RowStack(rest[0], tuple(rest[1:])))
        return True
    return False


def _has_ragged_axis(store: ConstraintStore, rows: list[Row]) -> bool:
    return any([is_ragged(store.dim(size)) for row in rows for size in sizes(row)])


def _without_axes(store: ConstraintStore, rows: list[Row], end: int) -> list[Row]:
    """Posts the constraints of the axes at one end of rows; returns the rows without them."""
    while all(rows) and any([type(row[end]) is not RowVar for row in rows]):
        for variable in [row[end] for row in rows]:
            if type(variable) is RowVar and variable not in store.row_of:
                if not min_rank(store, (variable,)):
                    return rows
                bind_row(store, variable, (RowVar(), fresh()) if end else (fresh(), RowVar()))
        rows = [store.row(row) for row in rows]
        axes = [row[end] for row in rows]
        if row_vars(axes):
            return rows
        store.post(AxisStack(axes[0], tuple(axes[1:])))  # type: ignore[arg-type]
        rows = [row[:-1] if end else row[1:] for row in rows]
    return rows
