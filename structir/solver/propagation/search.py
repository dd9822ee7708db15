"""Search after propagation: rank cycles, elimination in linear systems, and case analysis."""

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
from structir.solver.propagation.inequalities import combine_inequalities
from structir.solver.propagation.store import UNLIMITED, ActiveConstraint, ConstraintStore

MAX_TRIALS = 2000  # per call of `search`
MAX_TRIALS_PER_CONSTRAINT = 2
MAX_STEPS = 8_000  # rule runs per call of `solve`
MAX_STEPS_PER_TRIAL = 500  # rule runs; an unfinished trial counts as satisfiable
MAX_CASES = 16  # per constraint

Alternatives = list[list[Constraint]]


def search(store: ConstraintStore, until: int) -> None:
    """Derives conclusions by elimination and trials, up to a fixed point or `until` steps."""
    store.run()
    reject_positive_cycles(store)
    trials: dict[ActiveConstraint, int] = {}
    trial_count = 0
    changed = True
    while changed:
        changed = eliminate(store) or combine_inequalities(store)
        for active in list(store.open):
            if trial_count >= MAX_TRIALS or store.steps > until:
                return
            if active not in store.open or trials.get(active, 0) >= MAX_TRIALS_PER_CONSTRAINT:
                continue
            cases = alternatives(store, active)
            if not cases:
                continue
            trials[active] = trials.get(active, 0) + 1
            trial_count += len(cases)
            changed = try_cases(store, active, cases) or changed


def alternatives(store: ConstraintStore, active: ActiveConstraint) -> Alternatives:
    """Returns the cases of a constraint, one of which must hold; empty if it is not tried."""
    cases_of = ALTERNATIVES.get(type(active.constraint))
    store.begin(active.reason, active)
    return cases_of(store, active.constraint) if cases_of is not None else []


def try_cases(store: ConstraintStore, active: ActiveConstraint, cases: Alternatives) -> bool:
    """Tries each case, and concludes the values that all consistent cases share.

    Returns whether something follows.
    """
    premises = tuple(store.used)
    failures: list[Reason] = []
    survivors: list[tuple[list[Constraint], dict[Any, tuple[Any, Reason]]]] = []
    for case in cases:
        mark = store.push()
        store.begin((active.reason, *premises))
        store.limit = store.steps + MAX_STEPS_PER_TRIAL
        try:
            for constraint in case:
                store.post(constraint)
            store.run()
            survivors.append((case, _sizes_learned(store, mark)))
        except Conflict as conflict:
            failures.append(conflict.reason)
        except DiagnosticError:  # a size is divided by 0
            failures.append(store.reason())
        store.limit = UNLIMITED
        store.pop(mark)
    why: Reason = (active.reason, *premises, *failures)
    if not survivors:
        raise Conflict("no case of a constraint is satisfiable", why)
    store.begin(why)
    if len(survivors) == 1:
        for constraint in survivors[0][0]:
            store.post(constraint)
        store.run()
        return True
    return _conclude_common_values(store, why, [learned for _, learned in survivors])


def _sizes_learned(store: ConstraintStore, mark: int) -> dict[Any, tuple[Any, Reason]]:
    """Returns the sizes bound since a mark, with reasons."""
    learned: dict[Any, tuple[Any, Reason]] = {}
    for mapping, key, _ in (store.trail or [])[mark:]:
        if mapping is store.dims:
            store.begin(NO_REASON)
            learned[key] = store.dim(Poly({(key,): 1}, 0)), tuple(store.used)
    return learned


def _conclude_common_values(
    store: ConstraintStore, why: Reason, learned: list[dict[Any, tuple[Any, Reason]]]
) -> bool:
    """Binds the variables that have the same value in every case."""
    changed = False
    for symbol, (value, reason) in learned[0].items():
        others = [values.get(symbol) for values in learned[1:]]
        if symbol in store.dims or any(o is None or o[0] != value for o in others):
            continue
        store.begin((why, reason, *[o[1] for o in others if o is not None]))
        equate(store, Poly({(symbol,): 1}, 0), value)
        changed = True
    store.run()
    return changed


# Cases of constraints


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
    cases = _cases_of_values(store, [Poly({(s,): 1}, 0) for s in dict.fromkeys(variables(form))])
    return cases or _cases_of_bilinear(form)  # type: ignore[arg-type]


def _cases_of_values(store: ConstraintStore, sizes: list[Dim]) -> Alternatives:
    """Returns one case for each value of one of these sizes, if they are few."""
    best: tuple[int, int, Dim] | None = None
    for size in sizes:
        if symbol_of(size) is None:
            continue
        low, high = interval(store, size)
        if low is not None and high is not None and (best is None or high - low < best[0]):
            best = high - low, low, size
    if best is None or best[0] >= MAX_CASES:
        return []
    width, low, size = best
    return [[DimEq(size, low + k)] for k in range(width + 1)]


def _cases_of_bilinear(form: Poly) -> Alternatives:
    """Solves `n*m + b*n + c*m + d == 0` as `(n + c) * (m + b) == c*b - d`: one case per divisor."""
    pairs = [m for m in form.terms if len(m) == 2]
    if len(pairs) != 1 or any(len(m) > 2 for m in form.terms):
        return []
    (first_symbol, second_symbol), sign = pairs[0], form.terms[pairs[0]]
    if (
        first_symbol is second_symbol
        or type(first_symbol) is not Sym
        or type(second_symbol) is not Sym
        or sign not in (1, -1)
    ):
        return []
    if not set(form.terms) <= {pairs[0], (first_symbol,), (second_symbol,)}:
        return []
    first, second = (
        form.terms.get((first_symbol,), 0) * sign,
        form.terms.get((second_symbol,), 0) * sign,
    )
    product = first * second - form.constant * sign
    if not product or abs(product) > 1 << 16:
        return []
    first_size, second_size = Poly({(first_symbol,): 1}, 0), Poly({(second_symbol,): 1}, 0)
    cases: Alternatives = []
    for factor in range(1, abs(product) + 1):
        if product % factor == 0:
            for signed in (factor, -factor):
                first_value, second_value = signed - second, product // signed - first
                if first_value >= 0 and second_value >= 0:
                    cases.append([DimEq(first_size, first_value), DimEq(second_size, second_value)])
    return cases if len(cases) <= MAX_CASES else []


def _cases_of_row_le(store: ConstraintStore, order: RowLe) -> Alternatives:
    return _cases_of_ranks(store, [store.row(order.inner), store.row(order.outer)])


def _cases_of_row_join(store: ConstraintStore, join: RowJoin) -> Alternatives:
    return _cases_of_ranks(store, [store.row(row) for row in (join.outer, *join.inners)])


def _cases_of_row_eq(store: ConstraintStore, equation: RowEq) -> Alternatives:
    lhs, rhs = store.row(equation.left), store.row(equation.right)
    cases = _cases_of_ranks(store, [lhs, rhs])
    if cases:
        return cases
    for side, opposite in ((lhs, rhs), (rhs, lhs)):
        head = known_ends(opposite)[0]
        if side and type(side[0]) is RowVar and 0 < head <= 4:
            return _rank_cases(side[0], min_rank(store, (side[0],)), head)
    return []


def _rank_cases(variable: RowVar, low: int, least: int) -> Alternatives:
    """Returns one case for each rank below `least`, and one for all others."""
    exact = [[_axes(variable, k, True), _axes(variable, k, False)] for k in range(low, least)]
    return [*exact, [_axes(variable, least, True)]]


def _axes(variable: RowVar, count: int, lower: bool) -> Constraint:
    axes: Row = (1,) * count  # only the length matters
    return RankLe(axes, (variable,)) if lower else RankLe((variable,), axes)


def _cases_of_ranks(store: ConstraintStore, rows: list[Row]) -> Alternatives:
    """Returns one case for each rank of one of the row variables, if they are few."""
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
    """Combines linear equations that share variables; returns whether something new follows."""
    forms: list[tuple[Poly, Reason]] = []
    for active in store.open:
        if type(active.constraint) is DimEq:
            store.begin(active.reason)
            form = store.dim(active.constraint.left) - store.dim(active.constraint.right)
            if type(form) is Poly and all(len(m) == 1 for m in form.terms):
                forms.append((form, store.reason()))
    version = store.version
    for index, (pivot, pivot_reason) in enumerate(forms):
        for other, other_reason in forms[index + 1 :]:
            _combine(store, pivot, other, (pivot_reason, other_reason))
    store.run()
    return store.version != version


def _combine(store: ConstraintStore, first: Poly, second: Poly, why: Reason) -> None:
    """Eliminates a variable that two equations share, if the result is simpler than both."""
    for monomial in first.terms.keys() & second.terms.keys():
        rest = first * second.terms[monomial] - second * first.terms[monomial]
        terms = len(rest.terms) if type(rest) is Poly else 0
        if terms < max(len(first.terms), len(second.terms)):
            store.begin(why)
            if ("combined", rest) not in store.derived_once:
                store.set(store.derived_once, ("combined", rest), None)
                equate(store, rest, 0)
