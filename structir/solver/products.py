"""Numbers of elements: rows of equal product."""

from __future__ import annotations

from structir.ir.polynomial import Dim
from structir.solver.arithmetic import equate
from structir.solver.constraints import Prod
from structir.solver.store import Store, rule
from structir.solver.terms import Row, is_ragged, row_vars, sizes


def product(store: Store, row: Row) -> Dim:
    """The product of the sizes that are known to be in a row."""
    total: Dim = 1
    for size in sizes(row):
        known = store.dim(size)
        if is_ragged(known):
            raise store.conflict("a ragged axis has no number of elements")
        total = total * known
    return total


@rule(Prod)
def _(store: Store, constraint: Prod) -> bool:
    left, right = store.row(constraint.left), store.row(constraint.right)
    one, other = product(store, left), product(store, right)
    holes = row_vars(left) + row_vars(right)
    if not holes:
        equate(store, one, other)
        return True
    if len(holes) == 1:
        whole, part = (other, one) if row_vars(left) else (one, other)
        if type(whole) is int and type(part) is int and part and whole % part:
            raise store.conflict(f"{whole} elements are not a multiple of {part}")
    return False
