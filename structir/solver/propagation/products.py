"""Solves equations between the numbers of elements of two rows."""

from __future__ import annotations

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import Prod
from structir.solver.domains.terms import Row, RowVar, is_ragged, row_vars, sizes
from structir.solver.propagation.arithmetic import equate, fresh
from structir.solver.propagation.store import ConstraintStore, rule


def product(store: ConstraintStore, row: Row) -> Dim:
    """Returns the number of elements of a row; a row variable contributes a size variable."""
    total: Dim = 1
    for variable in row_vars(row):
        total = total * _elements(store, variable)
    for size in sizes(row):
        resolved = store.dim(size)
        if is_ragged(resolved):
            raise store.conflict("the number of elements along a ragged axis is unknown", "E0405")
        total = total * resolved
    return total


def _elements(store: ConstraintStore, variable: RowVar) -> Dim:
    count = store.elements.get(variable)
    if count is None:
        count = fresh()
        store.set(store.elements, variable, count)
        store.post(Prod((variable,), (count,)))
    return store.dim(count)


@rule(Prod)
def _(store: ConstraintStore, constraint: Prod) -> bool:
    lhs, rhs = store.row(constraint.left), store.row(constraint.right)
    if len(lhs) == 1 and type(lhs[0]) is RowVar and store.elements.get(lhs[0]) is rhs[0]:
        return False  # defines the number of elements until the row is bound
    equate(store, product(store, lhs), product(store, rhs))
    return True
