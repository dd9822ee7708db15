"""The solver: values of a program, what is said of them, and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from structir.ir.polynomial import Dim, Sym
from structir.solver.constraints.constraint import Constraint, RowEq
from structir.solver.constraints.scheme import Scheme, apply
from structir.solver.domains import labels, ranks
from structir.solver.domains.intervals import differ
from structir.solver.domains.reasons import NO_REASON, Conflict, Origin, Reason, origins
from structir.solver.domains.terms import (
    Row,
    RowVar,
    Variable,
    is_ragged,
    row_vars,
    sizes,
    symbol_of,
    variables,
)
from structir.solver.propagation import (
    arithmetic,
    dim_broadcast,
    products,
    row_broadcast,
    row_unification,
    side_conditions,
    windows,
)
from structir.solver.propagation.row_unification import equate_rows
from structir.solver.propagation.search import STEPS, STEPS_EACH, settle
from structir.solver.propagation.store import NAMED, PARAMETER, UNLIMITED, ConstraintStore

# Each of these rooms registers the rules of its constraints.
RULE_MODULES = (
    arithmetic,
    dim_broadcast,
    side_conditions,
    labels,
    products,
    ranks,
    row_broadcast,
    row_unification,
    windows,
)


@attrs.frozen(eq=False)
class Value:
    """A value of the program, by name; it equals only itself."""

    name: str


@attrs.frozen(eq=False)
class Assertion:
    """One thing that the program says; a statement can be said again to another solver."""

    origin: Origin


@attrs.frozen(eq=False)
class HasShape(Assertion):
    """A value has this row."""

    value: Value
    row: Row


@attrs.frozen(eq=False)
class Applied(Assertion):
    """Results come from operands by a scheme."""

    scheme: Scheme
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@attrs.frozen(eq=False)
class Disjunction(Assertion):
    """Results come from operands by one of several schemes."""

    schemes: tuple[Scheme, ...]
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@attrs.frozen(eq=False)
class UserConstraint(Assertion):
    """A constraint on the program's own variables."""

    constraint: Constraint


class Solver:
    """Takes statements one by one, and answers at any time."""

    def __init__(self, least: int = 1) -> None:
        self.store = ConstraintStore(least)
        self.statements: list[Assertion] = []
        self.rows: dict[Value, Row] = {}
        self.choices: list[Disjunction] = []  # of which it is not known yet which scheme holds
        self.marks: list[tuple[int, dict[Value, Row], list[Disjunction]]] = []

    # Saying

    def prefer(self, symbols: Iterable[Sym], level: int = NAMED) -> None:
        """These variables are the user's: those of lower levels are solved for first."""
        preference = self.store.preference
        for symbol in symbols:
            preference[symbol] = max(level, preference.get(symbol, 0))

    def prefer_open(self, values: Iterable[Value]) -> dict[Sym, int]:
        """Open sizes of these values are preferred to all others; gives the levels before."""
        found = [symbol_of(size) for value in values for size in sizes(self.shape(value))]
        open_ = [symbol for symbol in found if symbol is not None]
        levels = {symbol: self.store.preference.get(symbol, 0) for symbol in open_}
        self.prefer(open_, PARAMETER)
        return levels

    def assert_shape(self, value: Value, row: Row, origin: Origin) -> None:
        """A value has this row."""
        self.assert_(HasShape(origin, value, row))

    def apply(
        self, scheme: Scheme, operands: Sequence[Value], results: Sequence[Value], origin: Origin
    ) -> None:
        """Results come from operands by a scheme."""
        self.assert_(Applied(origin, scheme, tuple(operands), tuple(results)))

    def add(self, constraint: Constraint, origin: Origin) -> None:
        """A constraint holds."""
        self.assert_(UserConstraint(origin, constraint))

    def assert_(self, statement: Assertion) -> None:
        """Take a statement in, and propagate."""
        self.statements.append(statement)
        store = self.store
        store.begin(statement.origin)
        match statement:
            case Applied(_, scheme, operands, results):
                self._apply(scheme, operands, results)
            case Disjunction():
                self.choices.append(statement)
            case HasShape(_, value, row):
                store.may_be_ragged = store.may_be_ragged or any(
                    is_ragged(size) for size in sizes(row)
                )
                self._equate_row(value, row)
            case UserConstraint(_, constraint):
                store.post(constraint)
        store.run()

    def _apply(self, scheme: Scheme, operands: Sequence[Value], results: Sequence[Value]) -> None:
        made = apply(self.store, scheme, [self.row(value) for value in operands])
        for value, row in zip(results, made, strict=True):
            self._equate_row(value, row)

    def _equate_row(self, value: Value, row: Row) -> None:
        known = self.rows.get(value)
        if known is None:
            self.rows[value] = row
        else:
            equate_rows(self.store, known, row)

    # Asking

    def row(self, value: Value) -> Row:
        """The row of a value as it was said; a value that nothing was said of has any row."""
        known = self.rows.get(value)
        if known is None:
            known = self.rows[value] = (RowVar(value.name),)
        return known

    def shape(self, value: Value) -> Row:
        """The row of a value with everything known put in."""
        return self.resolve(self.row(value))

    def resolve(self, row: Row) -> Row:
        """A row with everything known put in."""
        store = self.store
        store.begin(NO_REASON)
        expanded = store.row(row)
        return tuple([e if type(e) is RowVar else store.normalized(e) for e in expanded])  # type: ignore[arg-type]

    def labels(self, value: Value) -> list[str | None]:
        """The label of each axis of a value of known rank."""
        row = self.store.row(self.row(value))
        return [None if type(e) is RowVar else labels.label_of(self.store, e) for e in row]  # type: ignore[arg-type]

    def solve(self) -> None:
        """Settle what propagation leaves open: ranks, linear systems, alternatives."""
        until = self.store.steps + STEPS
        settle(self.store, until)
        while self._apply_decided(until):
            settle(self.store, until)

    def _apply_decided(self, until: int) -> bool:
        """Apply the schemes that alone are left of their alternatives; whether there was one."""
        progress = False
        for choice in list(self.choices):
            if self.store.steps > until:
                break
            failures: list[Reason] = []
            left: list[Scheme] = []
            for scheme in choice.schemes:
                failure = self._find_contradiction(scheme, choice)
                if failure is None:
                    left.append(scheme)
                else:
                    failures.append(failure)
            why: Reason = (choice.origin, *failures)
            if not left:
                raise Conflict("no rank of the operands fits", why)
            if len(left) == 1:
                self.choices.remove(choice)
                self.store.begin(why)
                self._apply(left[0], choice.operands, choice.results)
                self.store.run()
                progress = True
        return progress

    def _find_contradiction(self, scheme: Scheme, choice: Disjunction) -> Reason | None:
        """Why a scheme cannot hold; None where it can."""
        known = dict(self.rows)
        mark = self.store.push()
        self.store.begin(choice.origin)
        self.store.limit = self.store.steps + STEPS_EACH
        try:
            self._apply(scheme, choice.operands, choice.results)
            self.store.run()
        except Conflict as conflict:
            return conflict.reason
        finally:
            self.store.limit = UNLIMITED
            self.store.pop(mark)
            self.rows = known
        return None

    def equal(self, left: Dim, right: Dim) -> bool | None:
        """Whether two sizes are equal: proved, refuted, or None where neither is known."""
        store = self.store
        store.begin(NO_REASON)
        one, other = store.normalized(left), store.normalized(right)
        if one == other:
            return True
        if differ(store, one, other):
            return False
        return None

    def same_shape(self, one: Value, other: Value) -> bool | None:
        """Whether two values have equal rows, ranks that are not known included."""
        left, right = self._strip_shared_ends(self.shape(one), self.shape(other))
        if left == right:
            return True
        for active in self.store.open:
            constraint = active.constraint
            if type(constraint) is RowEq:
                pair = self._strip_shared_ends(self.resolve(constraint.left), self.resolve(constraint.right))
                if pair in ((left, right), (right, left)):
                    return True
        if row_vars(left) or row_vars(right):
            return None
        if len(left) != len(right):
            return False
        answers = [self.equal(a, b) for a, b in zip(left, right, strict=True)]  # type: ignore[arg-type]
        return True if all(answers) else False if False in answers else None

    def _strip_shared_ends(self, left: Row, right: Row) -> tuple[Row, Row]:
        """Two rows without the ends that they share."""
        start, limit = 0, min(len(left), len(right))
        while start < limit and left[start] == right[start]:
            start += 1
        end = 0
        while end < limit - start and left[-1 - end] == right[-1 - end]:
            end += 1
        return left[start : len(left) - end], right[start : len(right) - end]

    def explain(self, term: Dim | RowVar, nearest: int = 12) -> list[Origin]:
        """The origins of what is known of a size or a row variable, nearest first."""
        return self.explain_row((term,), nearest)

    def explain_row(self, row: Row, nearest: int = 12) -> list[Origin]:
        """The origins of what is known of a row, nearest first."""
        store = self.store
        store.begin(NO_REASON)
        found: list[Variable] = []
        for element in store.row(row):
            if isinstance(element, RowVar):
                found.append(element)
            else:
                found += variables(element)
                found += variables(store.normalized(element))
        reasons: list[Reason] = list(store.used)
        for variable in dict.fromkeys(found):
            if variable in store.reasons:
                reasons.append(store.reasons[variable])
            for kind in ("low", "high", "rank low", "rank high"):
                if (kind, variable) in store.bound_reasons:
                    reasons.append(store.bound_reasons[kind, variable])
        return origins(reasons, nearest)

    @property
    def residual(self) -> list[Constraint]:
        """What is known to hold and could not be settled."""
        return [active.constraint for active in self.store.open]

    # Trying

    def push(self) -> int:
        """A mark to come back to; what is said later can be taken back."""
        self.marks.append((len(self.statements), dict(self.rows), list(self.choices)))
        return self.store.push()

    def pop(self, mark: int) -> None:
        """Take back everything said since the mark."""
        said, self.rows, self.choices = self.marks.pop()
        del self.statements[said:]
        self.store.pop(mark)


def replay(statements: Iterable[Assertion], solver: Solver, *, solve: bool = True) -> Solver:
    """A new solver that has heard these statements; raises the conflict that they lead to."""
    new = Solver(solver.store.least)
    new.store.preference = solver.store.preference
    new.store.may_be_ragged = solver.store.may_be_ragged
    for statement in statements:
        new.assert_(statement)
    if solve:
        new.solve()
    return new
