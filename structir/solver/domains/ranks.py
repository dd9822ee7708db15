"""Rank bounds of rows: inequalities between ranks, and detection of their positive cycles."""

from __future__ import annotations

from structir.solver.constraints.constraint import RankLe
from structir.solver.domains.reasons import Conflict, Reason
from structir.solver.domains.terms import Row, RowVar, row_vars
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.store import ActiveConstraint, ConstraintStore, rule

MAX_BOUND_UPDATES = 6  # by one inequality, before the search for a cycle
MAX_RANK = 64  # lower bounds above it are ignored


def min_rank(store: ConstraintStore, row: Row) -> int:
    """Returns the least number of axes that a row can have."""
    low = len(row)
    for variable in row_vars(row):
        low += _low(store, variable) - 1
    return low


def max_rank(store: ConstraintStore, row: Row) -> int | None:
    """Returns the greatest number of axes that a row can have; None for no limit."""
    high = len(row)
    for variable in row_vars(row):
        most = store.rank_highs.get(variable)
        if most is None:
            return None
        store.used.append(store.bound_reasons["rank high", variable])
        high += most - 1
    return high


def _low(store: ConstraintStore, variable: RowVar) -> int:
    low = store.rank_lows.get(variable, 0)
    if low:
        store.used.append(store.bound_reasons["rank low", variable])
    return low


def raise_min_rank(store: ConstraintStore, variable: RowVar, least: int) -> None:
    """Raises the minimum rank of a row variable."""
    if least <= _low(store, variable) or least > MAX_RANK:
        return
    reason = store.reason()
    store.set(store.rank_lows, variable, least)
    store.set(store.bound_reasons, ("rank low", variable), reason)
    _check_rank_bounds(store, variable)


def lower_max_rank(store: ConstraintStore, variable: RowVar, most: int) -> None:
    """Lowers the maximum rank of a row variable."""
    if most < 0:
        raise store.conflict("a rank must be at least 0", "E0402")
    current = store.rank_highs.get(variable)
    if current is not None and current <= most:
        return
    store.set(store.bound_reasons, ("rank high", variable), store.reason())
    store.set(store.rank_highs, variable, most)
    _check_rank_bounds(store, variable)


def _check_rank_bounds(store: ConstraintStore, variable: RowVar) -> None:
    mark = len(store.used)
    low, high = _low(store, variable), max_rank(store, (variable,))
    if high is not None and low > high:
        raise store.conflict(f"one rank must be at least {low} and at most {high}", "E0402")
    if low == high:
        bind_row(store, variable, tuple([fresh() for _ in range(low)]))
    else:
        del store.used[mark:]
        store.wake(variable)


def bind_row(store: ConstraintStore, variable: RowVar, value: Row) -> None:
    """Binds a row variable to a row, to which its rank bounds carry over."""
    low, high = _low(store, variable), max_rank(store, (variable,))
    store.bind(variable, value)
    if low:
        require_min_rank(store, value, low)
    if high is not None:
        require_max_rank(store, value, high)


def require_min_rank(store: ConstraintStore, row: Row, least: int) -> None:
    """Requires a row to have at least this many axes."""
    high = max_rank(store, row)
    if high is not None and high < least:
        raise store.conflict(f"expected at least {least} axes, found at most {high}", "E0402")
    row_variables = row_vars(row)
    if len(set(row_variables)) == 1:
        missing = least - (len(row) - len(row_variables))
        raise_min_rank(store, row_variables[0], -(-missing // len(row_variables)))


def require_max_rank(store: ConstraintStore, row: Row, most: int) -> None:
    """Requires a row to have at most this many axes."""
    low = min_rank(store, row)
    if low > most:
        raise store.conflict(f"expected at most {most} axes, found at least {low}", "E0402")
    for variable in dict.fromkeys(row_vars(row)):
        other_minimum = low - _low(store, variable)
        lower_max_rank(store, variable, most - other_minimum)


def equate_ranks(store: ConstraintStore, left: Row, right: Row) -> None:
    """Requires two rows to have the same rank."""
    if row_vars(left) or row_vars(right):
        store.post(RankLe(left, right))
        store.post(RankLe(right, left))


@rule(RankLe)
def _(store: ConstraintStore, constraint: RankLe) -> bool:
    shorter, longer = store.row(constraint.shorter), store.row(constraint.longer)
    if not row_vars(shorter):
        require_min_rank(store, longer, len(shorter))
        return len(row_vars(longer)) <= 1
    if not row_vars(longer):
        require_max_rank(store, shorter, len(longer))
        return len(row_vars(shorter)) <= 1
    fixed = _rank_difference(shorter, longer)
    if fixed is not None:
        if fixed > 0:
            raise store.conflict(f"a rank cannot exceed itself by {fixed}", "E0402")
        return True
    _propagate_bounds(store, shorter, longer)
    return False


def _rank_difference(shorter: Row, longer: Row) -> int | None:
    """Returns how many more axes one row has, if both have the same row variables."""
    lhs, rhs = row_vars(shorter), row_vars(longer)
    same = sorted(v.order for v in lhs) == sorted(v.order for v in rhs)
    return len(shorter) - len(longer) if same else None


def _propagate_bounds(store: ConstraintStore, shorter: Row, longer: Row) -> None:
    mark = len(store.used)
    before = min_rank(store, longer)
    least = min_rank(store, shorter)
    if least > before:
        running = store.running
        if running is not None:
            running.tightened += 1
            if running.tightened > MAX_BOUND_UPDATES:
                reject_positive_cycles(store)
        if running is None or running.tightened <= MAX_RANK:
            require_min_rank(store, longer, least)
    del store.used[mark:]
    high = max_rank(store, longer)
    if high is not None:
        require_max_rank(store, shorter, high)
    del store.used[mark:]


def reject_positive_cycles(store: ConstraintStore) -> None:
    """Raises Conflict if rows on a cycle each need more axes than the next."""
    edges: list[tuple[RowVar, RowVar, int, Reason]] = []
    used_before = store.used[:]
    for active in store.open:
        if type(active.constraint) is RankLe:
            edges += _edges(store, active)
    cycle = _positive_cycle(edges)
    store.used[:] = used_before
    if cycle is not None:
        raise Conflict("each of these ranks must exceed the next", tuple(cycle), "E0402")


def _edges(
    store: ConstraintStore, active: ActiveConstraint
) -> list[tuple[RowVar, RowVar, int, Reason]]:
    store.used.clear()
    constraint: RankLe = active.constraint  # type: ignore[assignment]
    shorter, longer = store.row(constraint.shorter), store.row(constraint.longer)
    sources, targets = row_vars(shorter), row_vars(longer)
    if len(targets) != 1 or not sources:
        return []
    fixed = (len(shorter) - len(sources)) - (len(longer) - 1)
    reason: Reason = (active.reason, *store.used)
    return [(source, targets[0], fixed, reason) for source in sources]


def _positive_cycle(edges: list[tuple[RowVar, RowVar, int, Reason]]) -> list[Reason] | None:
    """Returns the reasons around a cycle of positive weight (Bellman-Ford), or None."""
    longest: dict[RowVar, int] = {}
    predecessor: dict[RowVar, tuple[RowVar, Reason]] = {}
    for _ in range(MAX_RANK):
        changed = False
        for source, target, weight, reason in edges:
            if longest.get(source, 0) + weight > longest.get(target, 0):
                longest[target] = longest.get(source, 0) + weight
                predecessor[target] = source, reason
                changed = True
        cycle = _find_cycle(predecessor) if changed else None
        if cycle or not changed:
            return cycle
    return None


def _find_cycle(predecessor: dict[RowVar, tuple[RowVar, Reason]]) -> list[Reason] | None:
    """Returns the reasons along a cycle of predecessors, or None."""
    checked: dict[RowVar, RowVar] = {}  # each visited node, with the start of its walk
    for start in predecessor:
        node = start
        while node in predecessor and node not in checked:
            checked[node] = start
            node = predecessor[node][0]
        if checked.get(node) is start and node in predecessor:
            first, reasons = node, [predecessor[node][1]]
            while (node := predecessor[node][0]) is not first:
                reasons.append(predecessor[node][1])
            return reasons
    return None
