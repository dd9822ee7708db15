"""What propagation leaves open: cycles of ranks, linear systems, alternatives to be tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import DiagnosticError
from structir.ir.polynomial import Dim, Poly, Sym
from structir.solver.constraints.constraint import (
    Constraint,
    DimEq,
    DimJoin,
    DimLe,
    RankLe,
    RowEq,
    RowJoin,
    RowLe,
    Window,
)
from structir.solver.domains.intervals import interval
from structir.solver.domains.ranks import max_rank, min_rank, reject_positive_cycles
from structir.solver.domains.reasons import NO_REASON, Conflict, Reason
from structir.solver.domains.terms import Row, RowVar, known_ends, row_vars, symbol_of, variables
from structir.solver.propagation.arithmetic import equate
from structir.solver.propagation.store import UNLIMITED, ActiveConstraint, ConstraintStore

PROBES = 2000  # tried alternatives in one call of settle
EACH = 2  # tries of one constraint
STEPS = 8_000  # rules run in trying, in one call of solve
STEPS_EACH = 500  # and in one try; a try that is stopped counts as possible
WIDE = 16  # an interval of more sizes is not tried size by size

Alternatives = list[list[Constraint]]


def settle(store: ConstraintStore, until: int) -> None:
    """Derive what the stages can, until nothing new follows or so many steps are taken."""
    store.run()
    reject_positive_cycles(store)
    tries: dict[ActiveConstraint, int] = {}
    probes = 0
    changed = True
    while changed:
        changed = eliminate(store)
        for active in list(store.open):
            if probes >= PROBES or store.steps > until:
                return
            if active not in store.open or tries.get(active, 0) >= EACH:
                continue
            choices = alternatives(store, active)
            if len(choices) < 2 and not choices:
                continue
            tries[active] = tries.get(active, 0) + 1
            probes += len(choices)
            changed = probe(store, active, choices) or changed


def alternatives(store: ConstraintStore, active: ActiveConstraint) -> Alternatives:
    """Ways in which a constraint can hold, one of which it must; none where it is not tried."""
    finder = ALTERNATIVES.get(type(active.constraint))
    store.begin(active.reason, active)
    return finder(store, active.constraint) if finder is not None else []


def probe(store: ConstraintStore, active: ActiveConstraint, choices: Alternatives) -> bool:
    """Try each alternative; conclude what all that survive agree on. Whether something follows."""
    found = tuple(store.used)
    failures: list[Reason] = []
    survivors: list[tuple[list[Constraint], dict[Any, tuple[Any, Reason]]]] = []
    for choice in choices:
        mark = store.push()
        store.begin((active.reason, *found))
        store.limit = store.steps + STEPS_EACH
        try:
            for constraint in choice:
                store.post(constraint)
            store.run()
            survivors.append((choice, _sizes_learned(store, mark)))
        except Conflict as conflict:
            failures.append(conflict.reason)
        except DiagnosticError:  # a size that was found is divided by 0
            failures.append(store.reason())
        store.limit = UNLIMITED
        store.pop(mark)
    why: Reason = (active.reason, *found, *failures)
    if not survivors:
        raise Conflict("every way in which this can hold is ruled out", why)
    store.begin(why)
    if len(survivors) == 1:
        for constraint in survivors[0][0]:
            store.post(constraint)
        store.run()
        return True
    return _conclude_common_values(store, why, [learnt for _, learnt in survivors])


def _sizes_learned(store: ConstraintStore, mark: int) -> dict[Any, tuple[Any, Reason]]:
    """The sizes that were found since a mark."""
    found: dict[Any, tuple[Any, Reason]] = {}
    for mapping, key, _ in (store.trail or [])[mark:]:
        if mapping is store.dims:
            store.begin(NO_REASON)
            found[key] = store.dim(Poly({(key,): 1}, 0)), tuple(store.used)
    return found


def _conclude_common_values(
    store: ConstraintStore, why: Reason, learnt: list[dict[Any, tuple[Any, Reason]]]
) -> bool:
    """Conclude the values that a variable has in every alternative."""
    changed = False
    for symbol, (value, reason) in learnt[0].items():
        others = [found.get(symbol) for found in learnt[1:]]
        if symbol in store.dims or any(o is None or o[0] != value for o in others):
            continue
        store.begin((why, reason, *[o[1] for o in others if o is not None]))
        equate(store, Poly({(symbol,): 1}, 0), value)
        changed = True
    store.run()
    return changed


# Ways in which a constraint can hold


def _cases_of_dim_le(store: ConstraintStore, order: DimLe) -> Alternatives:
    return [[DimEq(order.inner, 1)], [DimEq(order.inner, order.outer)]]


def _cases_of_dim_join(store: ConstraintStore, join: DimJoin) -> Alternatives:
    return [
        [DimEq(join.outer, chosen), *[DimLe(part, chosen) for part in join.inners]]
        for chosen in join.inners
    ]


def _cases_of_window(store: ConstraintStore, window: Window) -> Alternatives:
    return _cases_of_values(store, [store.dim(window.inner), store.dim(window.kernel)])


def _cases_of_dim_eq(store: ConstraintStore, equation: DimEq) -> Alternatives:
    form = store.dim(equation.left) - store.dim(equation.right)
    if type(form) is int:
        return []
    found = _cases_of_values(store, [Poly({(s,): 1}, 0) for s in dict.fromkeys(variables(form))])
    return found or _cases_of_bilinear(form)  # type: ignore[arg-type]


def _cases_of_values(store: ConstraintStore, sizes: list[Dim]) -> Alternatives:
    """Each value that one of these sizes can have, where they are few."""
    best: tuple[int, int, Dim] | None = None
    for size in sizes:
        if symbol_of(size) is None:
            continue
        low, high = interval(store, size)
        if low is not None and high is not None and (best is None or high - low < best[0]):
            best = high - low, low, size
    if best is None or best[0] >= WIDE:
        return []
    width, low, size = best
    return [[DimEq(size, low + k)] for k in range(width + 1)]


def _cases_of_bilinear(form: Poly) -> Alternatives:
    """`n*m + b*n + c*m + d == 0` is `(n + c) * (m + b) == c*b - d`: one way for each divisor."""
    pairs = [m for m in form.terms if len(m) == 2]
    if len(pairs) != 1 or any(len(m) > 2 for m in form.terms):
        return []
    (one, other), sign = pairs[0], form.terms[pairs[0]]
    if one is other or type(one) is not Sym or type(other) is not Sym or sign not in (1, -1):
        return []
    if not set(form.terms) <= {pairs[0], (one,), (other,)}:
        return []
    first, second = form.terms.get((one,), 0) * sign, form.terms.get((other,), 0) * sign
    product = first * second - form.constant * sign
    if not product or abs(product) > 1 << 16:
        return []
    size_one, size_other = Poly({(one,): 1}, 0), Poly({(other,): 1}, 0)
    ways: Alternatives = []
    for factor in range(1, abs(product) + 1):
        if product % factor == 0:
            for signed in (factor, -factor):
                left, right = signed - second, product // signed - first
                if left >= 0 and right >= 0:
                    ways.append([DimEq(size_one, left), DimEq(size_other, right)])
    return ways if len(ways) <= WIDE else []


def _cases_of_row_le(store: ConstraintStore, order: RowLe) -> Alternatives:
    return _cases_of_ranks(store, [store.row(order.inner), store.row(order.outer)])


def _cases_of_row_join(store: ConstraintStore, join: RowJoin) -> Alternatives:
    return _cases_of_ranks(store, [store.row(row) for row in (join.outer, *join.inners)])


def _cases_of_row_eq(store: ConstraintStore, equation: RowEq) -> Alternatives:
    left, right = store.row(equation.left), store.row(equation.right)
    found = _cases_of_ranks(store, [left, right])
    if found:
        return found
    for one, other in ((left, right), (right, left)):
        head = known_ends(other)[0]
        if one and type(one[0]) is RowVar and 0 < head <= 4:
            return _rank_cases(one[0], min_rank(store, (one[0],)), head)
    return []


def _rank_cases(variable: RowVar, low: int, least: int) -> Alternatives:
    """Ranks below `least` one by one, and all others together."""
    exact = [[_axes(variable, k, True), _axes(variable, k, False)] for k in range(low, least)]
    return [*exact, [_axes(variable, least, True)]]


def _axes(variable: RowVar, count: int, lower: bool) -> Constraint:
    axes: Row = (1,) * count  # only counted
    return RankLe(axes, (variable,)) if lower else RankLe((variable,), axes)


def _cases_of_ranks(store: ConstraintStore, rows: list[Row]) -> Alternatives:
    """Each rank that one of the row variables can have, where they are few."""
    for row in rows:
        for variable in row_vars(row):
            low, high = min_rank(store, (variable,)), max_rank(store, (variable,))
            if high is not None and high - low <= 4:
                return [
                    [_axes(variable, k, True), _axes(variable, k, False)]
                    for k in range(low, high + 1)
                ]
    return []


ALTERNATIVES: dict[type[Constraint], Callable[[ConstraintStore, Any], Alternatives]] = {
    DimLe: _cases_of_dim_le,
    DimJoin: _cases_of_dim_join,
    Window: _cases_of_window,
    DimEq: _cases_of_dim_eq,
    RowLe: _cases_of_row_le,
    RowJoin: _cases_of_row_join,
    RowEq: _cases_of_row_eq,
}


# Linear systems


def eliminate(store: ConstraintStore) -> bool:
    """Combine linear equations that share variables; whether something new follows."""
    forms: list[tuple[Poly, Reason]] = []
    for active in store.open:
        if type(active.constraint) is DimEq:
            store.begin(active.reason)
            form = store.dim(active.constraint.left) - store.dim(active.constraint.right)
            if type(form) is Poly and all(len(m) == 1 for m in form.terms):
                forms.append((form, store.reason()))
    version = store.version
    for place, (pivot, why) in enumerate(forms):
        for other, reason in forms[place + 1 :]:
            _combine(store, pivot, other, (why, reason))
    store.run()
    return store.version != version


def _combine(store: ConstraintStore, one: Poly, other: Poly, why: Reason) -> None:
    """Eliminate a variable that two equations share, where the rest is simpler than both."""
    for monomial in one.terms.keys() & other.terms.keys():
        rest = one * other.terms[monomial] - other * one.terms[monomial]
        terms = len(rest.terms) if type(rest) is Poly else 0
        if terms < max(len(one.terms), len(other.terms)):
            store.begin(why)
            if ("combined", rest) not in store.derived_once:
                store.set(store.derived_once, ("combined", rest), None)
                equate(store, rest, 0)
