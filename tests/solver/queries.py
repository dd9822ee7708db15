"""Three-valued queries on a solver: whether sizes or shapes are provably equal or different."""

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import RowEq
from structir.solver.domains.intervals import differ
from structir.solver.domains.reasons import NO_REASON
from structir.solver.domains.terms import Row, row_vars
from structir.solver.solver import ConstraintSolver, Value


def equal(solver: ConstraintSolver, lhs: Dim, rhs: Dim) -> bool | None:
    """Returns whether two sizes are provably equal or different; None if undecided."""
    store = solver.store
    store.begin(NO_REASON)
    first, second = store.normalize(lhs), store.normalize(rhs)
    if first == second:
        return True
    return False if differ(store, first, second) else None


def same_shape(solver: ConstraintSolver, first: Value, second: Value) -> bool | None:
    """Returns whether two values have equal rows, as `equal` does; ranks may be unknown."""
    lhs, rhs = strip_shared_ends(solver.shape(first), solver.shape(second))
    if lhs == rhs:
        return True
    for constraint in solver.residual:
        if type(constraint) is RowEq:
            sides = solver.resolve(constraint.left), solver.resolve(constraint.right)
            if strip_shared_ends(*sides) in ((lhs, rhs), (rhs, lhs)):
                return True
    if row_vars(lhs) or row_vars(rhs):
        return None
    if len(lhs) != len(rhs):
        return False
    answers = [equal(solver, a, b) for a, b in zip(lhs, rhs, strict=True)]  # type: ignore[arg-type]
    return True if all(answers) else False if False in answers else None


def strip_shared_ends(lhs: Row, rhs: Row) -> tuple[Row, Row]:
    """Returns two rows without their shared prefix and suffix."""
    start, limit = 0, min(len(lhs), len(rhs))
    while start < limit and lhs[start] == rhs[start]:
        start += 1
    end = 0
    while end < limit - start and lhs[-1 - end] == rhs[-1 - end]:
        end += 1
    return lhs[start : len(lhs) - end], rhs[start : len(rhs) - end]
