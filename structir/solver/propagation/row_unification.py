"""Equal rows: ends that meet, row variables that are solved for, and equations that wait."""

from __future__ import annotations

from structir.solver.constraints.constraint import Reverse, RowEq, When
from structir.solver.domains.labels import unify_labels
from structir.solver.domains.ranks import bind_row, max_rank, min_rank, equate_ranks
from structir.solver.domains.terms import Element, Row, RowVar, known_ends, row_vars
from structir.solver.propagation.arithmetic import equate
from structir.solver.propagation.store import ConstraintStore, rule


def unify_axes(store: ConstraintStore, left: Element, right: Element) -> None:
    """Two axes are one: equal sizes, and one label."""
    if left is right:
        return
    if store.labelled:
        unify_labels(store, left, right)  # type: ignore[arg-type]
    if type(left) is not int or type(right) is not int:
        equate(store, left, right)  # type: ignore[arg-type]
    elif left != right:
        raise store.conflict(f"{left} is not {right}")


def equate_rows(store: ConstraintStore, left: Row, right: Row) -> None:
    """Two rows are equal: conclude what follows, and keep the rest as a constraint."""
    if left is right:
        return
    rest = _reduce_equation(store, left, right)
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


def _reduce_equation(store: ConstraintStore, left: Row, right: Row) -> tuple[Row, Row] | None:
    """What is left of an equation of rows once all that follows is concluded."""
    left, right = store.row(left), store.row(right)
    left, right = _strip_common_ends(store, left, right)
    if not left and not right:
        return None
    for one, other in ((left, right), (right, left)):
        if not one:
            _all_empty(store, other)
            return None
        if len(one) == 1 and type(one[0]) is RowVar:
            return _bind_variable(store, one[0], other)
    return _split_by_rank(store, left, right)


def _strip_common_ends(store: ConstraintStore, left: Row, right: Row) -> tuple[Row, Row]:
    start, limit = 0, min(len(left), len(right))
    while start < limit and _unify_elements(store, left[start], right[start]):
        start += 1
    end = 0
    while end < limit - start and _unify_elements(store, left[-1 - end], right[-1 - end]):
        end += 1
    return left[start : len(left) - end], right[start : len(right) - end]


def _unify_elements(store: ConstraintStore, one: Element, other: Element) -> bool:
    """Whether two elements at the same end of equal rows correspond; then they are made equal."""
    if type(one) is RowVar or type(other) is RowVar:
        return one is other
    unify_axes(store, one, other)
    return True


def _all_empty(store: ConstraintStore, row: Row) -> None:
    holes = row_vars(row)
    if len(holes) < len(row):
        raise store.conflict(f"{len(row) - len(holes)} axes where there are none")
    for variable in dict.fromkeys(holes):
        bind_row(store, variable, ())


def _bind_variable(store: ConstraintStore, variable: RowVar, row: Row) -> tuple[Row, Row] | None:
    if any(element is variable for element in row):
        others = tuple([e for e in row if e is not variable])
        if row_vars(row).count(variable) == 1:
            _all_empty(store, others)  # s = A s B holds only where A and B are empty
            return None
        _all_empty(store, row)
        return None
    if len(row) == 1 and type(row[0]) is RowVar and row[0].order > variable.order:
        variable, row = row[0], (variable,)
    bind_row(store, variable, row)
    return None


def _split_by_rank(store: ConstraintStore, left: Row, right: Row) -> tuple[Row, Row] | None:
    """`s B = C t`: `s` takes as much of `C` as it is known to have axes; the rest waits."""
    for one, other in ((left, right), (right, left)):
        if not row_vars(one) and _split_against_axes(store, other, one):
            return None
    for one, other in ((left, right), (right, left)):
        if _bind_head(store, one, other) or _bind_tail(store, one, other):
            return _reduce_equation(store, left, right)
    return left, right


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


def _split_against_axes(store: ConstraintStore, row: Row, known: Row) -> bool:
    """A row against known axes: solved where only one of its row variables has an unknown rank."""
    holes = row_vars(row)
    if len(set(holes)) != 1:
        return False
    total = len(known) - (len(row) - len(holes))
    if total % len(holes):
        raise store.conflict("a row that occurs several times does not fit")
    width = total // len(holes)
    place = 0
    value: Row | None = None
    for element in row:
        if type(element) is not RowVar:
            unify_axes(store, element, known[place])
            place += 1
            continue
        part = known[place : place + width]
        place += width
        if value is None:
            value = part
            bind_row(store, element, part)
        else:
            for one, other in zip(value, part, strict=True):
                unify_axes(store, one, other)
    return True


@rule(Reverse)
def _(store: ConstraintStore, constraint: Reverse) -> bool:
    forward, backward = store.row(constraint.forward), store.row(constraint.backward)
    if _record_mirrors(store, forward, backward):
        return False  # says that one is the other's mirror, until one of them is known
    if _is_variable(forward) and not _is_variable(backward):
        equate_rows(store, forward, _reverse_row(store, backward))
    else:
        equate_rows(store, backward, _reverse_row(store, forward))
    return True


def _is_variable(row: Row) -> bool:
    return len(row) == 1 and type(row[0]) is RowVar


def _record_mirrors(store: ConstraintStore, forward: Row, backward: Row) -> bool:
    """Whether these are two row variables of which one is the mirror of the other from now on."""
    if len(forward) != 1 or len(backward) != 1:
        return False
    one, other = forward[0], backward[0]
    if type(one) is not RowVar or type(other) is not RowVar:
        return False
    for variable, mirror in ((one, other), (other, one)):
        known = store.mirrors.get(variable)
        if known is not None and store.row((known,)) != (mirror,):
            return False
    for variable, mirror in ((one, other), (other, one)):
        if store.mirrors.get(variable) is not mirror:
            store.set(store.mirrors, variable, mirror)
    if store.is_first_run():
        equate_ranks(store, forward, backward)
    return True


def _reverse_row(store: ConstraintStore, row: Row) -> Row:
    return tuple([_mirror(store, e) if type(e) is RowVar else e for e in reversed(row)])


def _mirror(store: ConstraintStore, variable: RowVar) -> RowVar:
    found = store.mirrors.get(variable)
    if found is None:
        found = RowVar()
        store.set(store.mirrors, variable, found)
        store.set(store.mirrors, found, variable)
        store.post(Reverse((variable,), (found,)))
    return found


@rule(When)
def _(store: ConstraintStore, constraint: When) -> bool:
    row = store.row(constraint.row)
    if row_vars(row):
        return False
    for follows in constraint.emit(row, constraint.others):
        store.post(follows)
    return True


def rank_of(store: ConstraintStore, row: Row) -> int | None:
    """The number of axes of a row, where it is known."""
    row = store.row(row)
    low, high = min_rank(store, row), max_rank(store, row)
    return low if low == high else None
