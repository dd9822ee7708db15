"""Solves equations of rows (unification): matches ends, binds row variables, defers the rest."""

from __future__ import annotations

from structir.solver.constraints.constraint import Reverse, RowEq, When
from structir.solver.domains.labels import unify_labels
from structir.solver.domains.ranks import bind_row, equate_ranks, max_rank, min_rank
from structir.solver.domains.terms import Element, Row, RowVar, known_ends, row_vars
from structir.solver.propagation.arithmetic import equate
from structir.solver.propagation.store import ConstraintStore, rule


def unify_axes(store: ConstraintStore, lhs: Element, rhs: Element) -> None:
    """Unifies two axes: equal sizes, and one label."""
    if lhs is rhs:
        return
    if store.labelled:
        unify_labels(store, lhs, rhs)  # type: ignore[arg-type]
    if type(lhs) is not int or type(rhs) is not int:
        equate(store, lhs, rhs)  # type: ignore[arg-type]
    elif lhs != rhs:
        raise store.conflict(f"one dim must be both {lhs} and {rhs}")


def equate_rows(store: ConstraintStore, lhs: Row, rhs: Row) -> None:
    """Equates two rows: propagates, and posts the remaining equation as a constraint."""
    if lhs is rhs:
        return
    rest = _reduce_equation(store, lhs, rhs)
    if rest is not None:
        store.post(RowEq(*rest))


@rule(RowEq)
def _(store: ConstraintStore, constraint: RowEq) -> bool:
    rest = _reduce_equation(store, constraint.left, constraint.right)
    if rest is None:
        return True
    if store.is_first_run():
        equate_ranks(store, *rest)
    if len(rest[0]) < len(store.row(constraint.left)):
        store.repost(RowEq(*rest))
        return True
    return False


def _reduce_equation(store: ConstraintStore, lhs: Row, rhs: Row) -> tuple[Row, Row] | None:
    """Propagates an equation of rows; returns the remaining equation, or None if it is settled."""
    lhs, rhs = store.row(lhs), store.row(rhs)
    lhs, rhs = _strip_common_ends(store, lhs, rhs)
    if not lhs and not rhs:
        return None
    for side, opposite in ((lhs, rhs), (rhs, lhs)):
        if not side:
            _bind_empty(store, opposite)
            return None
        if len(side) == 1 and type(side[0]) is RowVar:
            return _bind_variable(store, side[0], opposite)
    return _split_by_rank(store, lhs, rhs)


def _strip_common_ends(store: ConstraintStore, lhs: Row, rhs: Row) -> tuple[Row, Row]:
    start, limit = 0, min(len(lhs), len(rhs))
    while start < limit and _unify_elements(store, lhs[start], rhs[start]):
        start += 1
    end = 0
    while end < limit - start and _unify_elements(store, lhs[-1 - end], rhs[-1 - end]):
        end += 1
    return lhs[start : len(lhs) - end], rhs[start : len(rhs) - end]


def _unify_elements(store: ConstraintStore, first: Element, second: Element) -> bool:
    """Unifies two aligned elements of equal rows; returns whether they correspond."""
    if type(first) is RowVar or type(second) is RowVar:
        return first is second
    unify_axes(store, first, second)
    return True


def _bind_empty(store: ConstraintStore, row: Row) -> None:
    row_variables = row_vars(row)
    if len(row_variables) < len(row):
        raise store.conflict(
            f"ranks of equal shapes differ by at least {len(row) - len(row_variables)}", "E0402"
        )
    for variable in dict.fromkeys(row_variables):
        bind_row(store, variable, ())


def _bind_variable(store: ConstraintStore, variable: RowVar, row: Row) -> tuple[Row, Row] | None:
    if any(element is variable for element in row):
        others = tuple([e for e in row if e is not variable])
        if row_vars(row).count(variable) == 1:
            _bind_empty(store, others)  # s = A s B holds only where A and B are empty
            return None
        _bind_empty(store, row)
        return None
    if len(row) == 1 and type(row[0]) is RowVar and row[0].order > variable.order:
        variable, row = row[0], (variable,)
    bind_row(store, variable, row)
    return None


def _split_by_rank(store: ConstraintStore, lhs: Row, rhs: Row) -> tuple[Row, Row] | None:
    """Solves `s B = C t`: binds `s` to as many axes of `C` as it is known to have."""
    for side, opposite in ((lhs, rhs), (rhs, lhs)):
        if not row_vars(side) and _split_against_axes(store, opposite, side):
            return None
    for side, opposite in ((lhs, rhs), (rhs, lhs)):
        if _bind_head(store, side, opposite) or _bind_tail(store, side, opposite):
            return _reduce_equation(store, lhs, rhs)
    return lhs, rhs


def _bind_head(store: ConstraintStore, row: Row, other: Row) -> bool:
    variable, head = row[0], known_ends(other)[0]
    if type(variable) is not RowVar or not head:
        return False
    mark = len(store.used)
    width = min(min_rank(store, (variable,)), head)
    if not width:
        del store.used[mark:]
        return False
    bind_row(store, variable, (*other[:width], RowVar()))
    return True


def _bind_tail(store: ConstraintStore, row: Row, other: Row) -> bool:
    variable, tail = row[-1], known_ends(other)[1]
    if type(variable) is not RowVar or not tail:
        return False
    mark = len(store.used)
    width = min(min_rank(store, (variable,)), tail)
    if not width:
        del store.used[mark:]
        return False
    bind_row(store, variable, (RowVar(), *other[len(other) - width :]))
    return True


def _split_against_axes(store: ConstraintStore, row: Row, axes: Row) -> bool:
    """Equates a row that has one distinct row variable with axes, which determine its rank."""
    row_variables = row_vars(row)
    if len(set(row_variables)) != 1:
        return False
    total = len(axes) - (len(row) - len(row_variables))
    if total % len(row_variables):
        raise store.conflict(
            "the number of axes is not a multiple of the occurrences of a row variable", "E0402"
        )
    width = total // len(row_variables)
    index = 0
    value: Row | None = None
    for element in row:
        if type(element) is not RowVar:
            unify_axes(store, element, axes[index])
            index += 1
            continue
        section = axes[index : index + width]
        index += width
        if value is None:
            value = section
            bind_row(store, element, section)
        else:
            for first, second in zip(value, section, strict=True):
                unify_axes(store, first, second)
    return True


@rule(Reverse)
def _(store: ConstraintStore, constraint: Reverse) -> bool:
    forward, backward = store.row(constraint.forward), store.row(constraint.backward)
    if _record_mirrors(store, forward, backward):
        return False  # records the reversal until one of the rows is known
    if _is_variable(forward) and not _is_variable(backward):
        equate_rows(store, forward, _reverse_row(store, backward))
    else:
        equate_rows(store, backward, _reverse_row(store, forward))
    return True


def _is_variable(row: Row) -> bool:
    return len(row) == 1 and type(row[0]) is RowVar


def _record_mirrors(store: ConstraintStore, forward: Row, backward: Row) -> bool:
    """Records two row variables as reversals of each other, if both rows are variables."""
    if len(forward) != 1 or len(backward) != 1:
        return False
    first, second = forward[0], backward[0]
    if type(first) is not RowVar or type(second) is not RowVar:
        return False
    for variable, mirror in ((first, second), (second, first)):
        existing = store.mirrors.get(variable)
        if existing is not None and store.row((existing,)) != (mirror,):
            return False
    for variable, mirror in ((first, second), (second, first)):
        if store.mirrors.get(variable) is not mirror:
            store.set(store.mirrors, variable, mirror)
    if store.is_first_run():
        equate_ranks(store, forward, backward)
    return True


def _reverse_row(store: ConstraintStore, row: Row) -> Row:
    return tuple([_mirror(store, e) if type(e) is RowVar else e for e in reversed(row)])


def _mirror(store: ConstraintStore, variable: RowVar) -> RowVar:
    mirror = store.mirrors.get(variable)
    if mirror is None:
        mirror = RowVar()
        store.set(store.mirrors, variable, mirror)
        store.set(store.mirrors, mirror, variable)
        store.post(Reverse((variable,), (mirror,)))
    return mirror


@rule(When)
def _(store: ConstraintStore, constraint: When) -> bool:
    row = store.row(constraint.row)
    if row_vars(row):
        return False
    for implied in constraint.emit(row, constraint.others):
        store.post(implied)
    return True


def rank_of(store: ConstraintStore, row: Row) -> int | None:
    """Returns the rank of a row if it is known, or None."""
    row = store.row(row)
    low, high = min_rank(store, row), max_rank(store, row)
    return low if low == high else None
