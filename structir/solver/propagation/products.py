"""Numbers of elements: rows of equal product."""

from __future__ import annotations

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import Prod
from structir.solver.domains.terms import Row, RowVar, is_ragged, row_vars, sizes
from structir.solver.propagation.arithmetic import equate, fresh
from structir.solver.propagation.store import ConstraintStore, rule


def product(store: ConstraintStore, row: Row) -> Dim:
    """The number of elements of a row; that of a row variable is a size of its own."""
    total: Dim = 1
    for variable in row_vars(row):
        total = total * _elements(store, variable)
    for size in sizes(row):
        known = store.dim(size)
        if is_ragged(known):
            raise store.conflict("a ragged axis has no number of elements")
        total = total * known
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
    left, right = store.row(constraint.left), store.row(constraint.right)
    if len(left) == 1 and type(left[0]) is RowVar and store.elements.get(left[0]) is right[0]:
        return False  # says what the number of elements is called, until the row is known
    equate(store, product(store, left), product(store, right))
    return True
