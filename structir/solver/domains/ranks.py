"""Ranks: how many axes a row has, as a theory of its own: bounds, inequalities, cycles."""

from __future__ import annotations

from structir.solver.constraints.constraint import RankLe
from structir.solver.domains.reasons import Conflict, Reason
from structir.solver.domains.terms import Row, RowVar, row_vars
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.store import ActiveConstraint, ConstraintStore, rule

PATIENCE = 6  # how often one inequality may raise a bound before a cycle is looked for
MAX_RANK = 64  # no rank is greater; a bound beyond is not pursued


def min_rank(store: ConstraintStore, row: Row) -> int:
    """The least number of axes that a row can have."""
    low = len(row)
    for variable in row_vars(row):
        low += _low(store, variable) - 1
    return low


def max_rank(store: ConstraintStore, row: Row) -> int | None:
    """The greatest number of axes that a row can have; None where there is no limit."""
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
    """A row variable has at least this many axes."""
    if least <= _low(store, variable) or least > MAX_RANK:
        return
    reason = store.reason()
    store.set(store.rank_lows, variable, least)
    store.set(store.bound_reasons, ("rank low", variable), reason)
    _check_rank_bounds(store, variable)


def lower_max_rank(store: ConstraintStore, variable: RowVar, most: int) -> None:
    """A row variable has at most this many axes."""
    if most < 0:
        raise store.conflict("a row has too many axes")
    known = store.rank_highs.get(variable)
    if known is not None and known <= most:
        return
    store.set(store.bound_reasons, ("rank high", variable), store.reason())
    store.set(store.rank_highs, variable, most)
    _check_rank_bounds(store, variable)


def _check_rank_bounds(store: ConstraintStore, variable: RowVar) -> None:
    mark = len(store.used)
    low, high = _low(store, variable), max_rank(store, (variable,))
    if high is not None and low > high:
        raise store.conflict(f"a row has at least {low} axes and at most {high}")
    if low == high:
        bind_row(store, variable, tuple([fresh() for _ in range(low)]))
    else:
        del store.used[mark:]
        store.wake(variable)


def bind_row(store: ConstraintStore, variable: RowVar, value: Row) -> None:
    """A row variable is this row; what was known of its rank goes over to the row."""
    low, high = _low(store, variable), max_rank(store, (variable,))
    store.bind(variable, value)
    if low:
        require_min_rank(store, value, low)
    if high is not None:
        require_max_rank(store, value, high)


def require_min_rank(store: ConstraintStore, row: Row, least: int) -> None:
    """A row has at least this many axes."""
    high = max_rank(store, row)
    if high is not None and high < least:
        raise store.conflict(f"a row has at most {high} axes, not {least}")
    holes = row_vars(row)
    if len(set(holes)) == 1:
        missing = least - (len(row) - len(holes))
        raise_min_rank(store, holes[0], -(-missing // len(holes)))


def require_max_rank(store: ConstraintStore, row: Row, most: int) -> None:
    """A row has at most this many axes."""
    low = min_rank(store, row)
    if low > most:
        raise store.conflict(f"a row has at least {low} axes, not {most}")
    for variable in dict.fromkeys(row_vars(row)):
        rest = low - _low(store, variable)
        lower_max_rank(store, variable, most - rest)


def equate_ranks(store: ConstraintStore, left: Row, right: Row) -> None:
    """Two rows have equally many axes."""
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
            raise store.conflict(f"a row has {fixed} axes more than itself")
        return True
    _propagate_bounds(store, shorter, longer)
    return False


def _rank_difference(shorter: Row, longer: Row) -> int | None:
    """How many axes more one row has, where both have the same row variables."""
    left, right = row_vars(shorter), row_vars(longer)
    same = sorted(v.order for v in left) == sorted(v.order for v in right)
    return len(shorter) - len(longer) if same else None


def _propagate_bounds(store: ConstraintStore, shorter: Row, longer: Row) -> None:
    mark = len(store.used)
    before = min_rank(store, longer)
    least = min_rank(store, shorter)
    if least > before:
        running = store.running
        if running is not None:
            running.tightened += 1
            if running.tightened > PATIENCE:
                reject_positive_cycles(store)
        if running is None or running.tightened <= MAX_RANK:
            require_min_rank(store, longer, least)
    del store.used[mark:]
    high = max_rank(store, longer)
    if high is not None:
        require_max_rank(store, shorter, high)
    del store.used[mark:]


def reject_positive_cycles(store: ConstraintStore) -> None:
    """Conflict where rows each need more axes than the next, all the way round."""
    edges: list[tuple[RowVar, RowVar, int, Reason]] = []
    kept = store.used[:]
    for active in store.open:
        if type(active.constraint) is RankLe:
            edges += _edges(store, active)
    cycle = _positive_cycle(edges)
    store.used[:] = kept
    if cycle is not None:
        raise Conflict("each of these rows needs more axes than the next", tuple(cycle))


def _edges(
    store: ConstraintStore, active: ActiveConstraint
) -> list[tuple[RowVar, RowVar, int, Reason]]:
    store.used.clear()
    constraint: RankLe = active.constraint  # type: ignore[assignment]
    shorter, longer = store.row(constraint.shorter), store.row(constraint.longer)
    left, right = row_vars(shorter), row_vars(longer)
    if len(right) != 1 or not left:
        return []
    fixed = (len(shorter) - len(left)) - (len(longer) - 1)
    why: Reason = (active.reason, *store.used)
    return [(source, right[0], fixed, why) for source in left]


def _positive_cycle(edges: list[tuple[RowVar, RowVar, int, Reason]]) -> list[Reason] | None:
    """The reasons around a cycle of positive weight; each round lengthens the walks."""
    longest: dict[RowVar, int] = {}
    predecessor: dict[RowVar, tuple[RowVar, Reason]] = {}
    for _ in range(MAX_RANK):
        changed = False
        for source, target, weight, why in edges:
            if longest.get(source, 0) + weight > longest.get(target, 0):
                longest[target] = longest.get(source, 0) + weight
                predecessor[target] = source, why
                changed = True
        found = _find_cycle(predecessor) if changed else None
        if found or not changed:
            return found
    return None


def _find_cycle(predecessor: dict[RowVar, tuple[RowVar, Reason]]) -> list[Reason] | None:
    """The reasons along a cycle of steps, if the steps have one."""
    checked: dict[RowVar, RowVar] = {}  # each place, with the start of the walk that met it
    for start in predecessor:
        place = start
        while place in predecessor and place not in checked:
            checked[place] = start
            place = predecessor[place][0]
        if checked.get(place) is start and place in predecessor:
            first, reasons = place, [predecessor[place][1]]
            while (place := predecessor[place][0]) is not first:
                reasons.append(predecessor[place][1])
            return reasons
    return None
