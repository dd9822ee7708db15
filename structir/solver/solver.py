"""The incremental constraint solver of the compiler: assertions about values, and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from structir.ir.polynomial import Sym
from structir.solver.constraints.constraint import AxisStack, Constraint, RowStack, Sum
from structir.solver.constraints.scheme import Scheme, apply
from structir.solver.domains import labels, ranks
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
    stacks,
    windows,
)
from structir.solver.propagation.row_unification import equate_rows
from structir.solver.propagation.search import MAX_STEPS, MAX_STEPS_PER_TRIAL, search
from structir.solver.propagation.store import NAMED, PARAMETER, UNLIMITED, ConstraintStore

# Each of these modules registers the rules of its constraints.
RULE_MODULES = (
    arithmetic,
    dim_broadcast,
    side_conditions,
    labels,
    products,
    ranks,
    row_broadcast,
    row_unification,
    stacks,
    windows,
)
CONCATENATIONS = (Sum, AxisStack, RowStack)  # constraints whose open parts may be ragged


@attrs.frozen(eq=False)
class Value:
    """A value of the program, by name; compared by identity."""

    name: str


@attrs.frozen(eq=False)
class Assertion:
    """An assertion of the program; `replay` repeats it on another solver."""

    origin: Origin


@attrs.frozen(eq=False)
class HasShape(Assertion):
    """Asserts that a value has this row of axes."""

    value: Value
    row: Row


@attrs.frozen(eq=False)
class SchemeApplication(Assertion):
    """Asserts that a scheme relates operands and results."""

    scheme: Scheme
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@attrs.frozen(eq=False)
class Disjunction(Assertion):
    """Asserts that one of several schemes relates operands and results."""

    schemes: tuple[Scheme, ...]
    operands: tuple[Value, ...]
    results: tuple[Value, ...]


@attrs.frozen(eq=False)
class Requirement(Assertion):
    """Asserts that an op accepts its operands, as far as a solver knows them.

    `rejection` returns the message of the op for the shapes of a solver, or None."""

    operands: tuple[Value, ...]
    rejection: Callable[[ConstraintSolver], str | None]


@attrs.frozen(eq=False)
class UserConstraint(Assertion):
    """Asserts a constraint on variables of the program."""

    constraint: Constraint


class ConstraintSolver:
    """An incremental solver: propagates after each assertion, and answers queries at any time."""

    def __init__(self, least: int = 1, search_steps: int = MAX_STEPS) -> None:
        self.store = ConstraintStore(least)
        self.search_steps = search_steps  # rule runs per call of `solve`
        self.assertions: list[Assertion] = []
        self.rows: dict[Value, Row] = {}
        self.disjunctions: list[Disjunction] = []  # undecided ones
        self.marks: list[tuple[int, dict[Value, Row], list[Disjunction]]] = []

    # Assertions

    def prefer(self, symbols: Iterable[Sym], level: int = NAMED) -> None:
        """Sets a preference: equations are solved for variables of lower levels first."""
        preference = self.store.preference
        for symbol in symbols:
            preference[symbol] = max(level, preference.get(symbol, 0))

    def allow_zero(self, symbols: Iterable[Sym]) -> None:
        """Sets the lower bound of new size variables to 0."""
        for symbol in symbols:
            self.store.set(self.store.lows, symbol, 0)

    def prefer_open(self, values: Iterable[Value]) -> dict[Sym, int]:
        """Prefers the open sizes of these values to all others; returns their previous levels."""
        symbols = [symbol_of(size) for value in values for size in sizes(self.shape(value))]
        open_symbols = [symbol for symbol in symbols if symbol is not None]
        levels = {symbol: self.store.preference.get(symbol, 0) for symbol in open_symbols}
        self.prefer(open_symbols, PARAMETER)
        return levels

    def assert_shape(self, value: Value, row: Row, origin: Origin) -> None:
        """Asserts that a value has this row."""
        self.assert_(HasShape(origin, value, row))

    def apply(
        self, scheme: Scheme, operands: Sequence[Value], results: Sequence[Value], origin: Origin
    ) -> None:
        """Asserts that a scheme relates operands and results."""
        self.assert_(SchemeApplication(origin, scheme, tuple(operands), tuple(results)))

    def add(self, constraint: Constraint, origin: Origin) -> None:
        """Asserts a constraint."""
        self.assert_(UserConstraint(origin, constraint))

    def assert_(self, assertion: Assertion) -> None:
        """Adds an assertion and propagates. Raises Conflict if it contradicts the others."""
        self.assertions.append(assertion)
        store = self.store
        store.begin(assertion.origin)
        match assertion:
            case SchemeApplication(_, scheme, operands, results):
                self._apply(scheme, operands, results)
            case Disjunction():
                self.disjunctions.append(assertion)
            case HasShape(_, value, row):
                store.may_be_ragged = store.may_be_ragged or any(
                    is_ragged(size) for size in sizes(row)
                )
                self._equate_row(value, row)
            case UserConstraint(_, constraint):
                store.post(constraint)
            case Requirement():
                self._require(assertion)
        store.run()

    def _apply(self, scheme: Scheme, operands: Sequence[Value], results: Sequence[Value]) -> None:
        result_rows = apply(self.store, scheme, [self.row(value) for value in operands])
        for value, row in zip(results, result_rows, strict=True):
            self._equate_row(value, row)

    def _require(self, requirement: Requirement) -> None:
        self.solve()  # ranks may follow from a search only
        message = requirement.rejection(self)
        if message is None:
            return
        operands = set(requirement.operands)
        shapes = [a for a in self.assertions if isinstance(a, HasShape) and a.value in operands]
        self.store.begin((requirement.origin, *[shape.origin for shape in shapes]))
        for value in operands:
            self.store.row(self.row(value))  # the conflict depends on it
        raise self.store.conflict(message)

    def _equate_row(self, value: Value, row: Row) -> None:
        asserted_row = self.rows.get(value)
        if asserted_row is None:
            self.rows[value] = row
        else:
            equate_rows(self.store, asserted_row, row)
            if not row_vars(row) and row_vars(asserted_row):
                self.rows[value] = row  # the one of known rank
            elif self.store.labelled and not row_vars((*row, *asserted_row)):
                pairs = zip(asserted_row, row, strict=True)  # a number has no label
                self.rows[value] = tuple([b if type(a) is int else a for a, b in pairs])

    # Queries

    def row(self, value: Value) -> Row:
        """Returns the asserted row of a value; a fresh row variable if there is none."""
        row = self.rows.get(value)
        if row is None:
            row = self.rows[value] = (RowVar(value.name),)
        return row

    def shape(self, value: Value) -> Row:
        """Returns the row of a value with all bindings substituted."""
        return self.resolve(self.row(value))

    def resolve(self, row: Row) -> Row:
        """Returns a row with all bindings substituted."""
        store = self.store
        store.begin(NO_REASON)
        expanded = store.row(row)
        return tuple([e if type(e) is RowVar else store.normalize(e) for e in expanded])  # type: ignore[arg-type]

    def labels(self, value: Value) -> list[str | None]:
        """Returns the label of each axis of a value of known rank."""
        row = self.store.row(self.row(value))
        return [None if type(e) is RowVar else labels.label_of(self.store, e) for e in row]  # type: ignore[arg-type]

    def axis_identities(self, value: Value) -> list[object]:
        """Returns for each axis what it has in common with the axes unified with it."""
        row = self.store.row(self.row(value))
        return [None if type(e) is RowVar else labels.identity_of(self.store, e) for e in row]  # type: ignore[arg-type]

    def solve(self) -> None:
        """Searches after propagation: rank cases, linear systems and disjunctions."""
        until = self.store.steps + self.search_steps
        search(self.store, until)
        while self._apply_decided(until):
            search(self.store, until)

    def assume_dense_sums(self) -> bool:
        """Assumes that no open part of a concatenation is ragged; returns whether one is open.

        Results print an open part as a size, so other constraints must hold for a size."""
        store = self.store
        joined = [a.constraint for a in store.open if type(a.constraint) in CONCATENATIONS]
        if not store.may_be_ragged or not joined:
            return False
        store.may_be_ragged = False
        for constraint in joined:
            parts = [size for row in constraint.rows() for size in sizes(store.row(row))]
            for part in map(store.dim, (*constraint.dims(), *parts)):
                for symbol in () if is_ragged(part) else variables(part):
                    store.set(store.dense, symbol, None)
            store.post(constraint)
        store.run()
        return True

    def _apply_decided(self, until: int) -> bool:
        """Applies disjunctions with one remaining scheme; returns whether there were any."""
        progress = False
        for disjunction in list(self.disjunctions):
            if self.store.steps > until:
                break
            failures: list[Reason] = []
            remaining: list[Scheme] = []
            for scheme in disjunction.schemes:
                failure = self._find_contradiction(scheme, disjunction)
                if failure is None:
                    remaining.append(scheme)
                else:
                    failures.append(failure)
            reason: Reason = (disjunction.origin, *failures)
            if not remaining:
                raise Conflict("no rank of the operands satisfies the op", reason, "E0402")
            if len(remaining) == 1:
                self.disjunctions.remove(disjunction)
                self.store.begin(reason)
                self._apply(remaining[0], disjunction.operands, disjunction.results)
                self.store.run()
                progress = True
        return progress

    def _find_contradiction(self, scheme: Scheme, disjunction: Disjunction) -> Reason | None:
        """Returns the reason of a conflict of this scheme, or None if there is none."""
        rows = dict(self.rows)
        mark = self.store.push()
        self.store.begin(disjunction.origin)
        self.store.limit = self.store.steps + MAX_STEPS_PER_TRIAL
        try:
            self._apply(scheme, disjunction.operands, disjunction.results)
            self.store.run()
        except Conflict as conflict:
            return conflict.reason
        finally:
            self.store.limit = UNLIMITED
            self.store.pop(mark)
            self.rows = rows
        return None

    def explain(self, row: Row, nearest: int = 12) -> list[Origin]:
        """Returns the origins that determine a row, nearest first."""
        store = self.store
        store.begin(NO_REASON)
        mentioned: list[Variable] = []
        for element in store.row(row):
            if isinstance(element, RowVar):
                mentioned.append(element)
            else:
                mentioned += variables(element)
                mentioned += variables(store.normalize(element))
        reasons: list[Reason] = list(store.used)
        for variable in dict.fromkeys(mentioned):
            if variable in store.reasons:
                reasons.append(store.reasons[variable])
            for kind in ("low", "high", "rank low", "rank high"):
                if (kind, variable) in store.bound_reasons:
                    reasons.append(store.bound_reasons[kind, variable])
        return origins(reasons, nearest)

    @property
    def residual(self) -> list[Constraint]:
        """The constraints that are neither proved nor refuted."""
        return [active.constraint for active in self.store.open]

    # Backtracking

    def push(self) -> int:
        """Starts a backtracking point and returns its mark; `pop` undoes later assertions."""
        self.marks.append((len(self.assertions), dict(self.rows), list(self.disjunctions)))
        return self.store.push()

    def pop(self, mark: int) -> None:
        """Undoes every assertion since the mark."""
        count, self.rows, self.disjunctions = self.marks.pop()
        del self.assertions[count:]
        self.store.pop(mark)


def unconstrained(solver: ConstraintSolver, search_steps: int = MAX_STEPS) -> ConstraintSolver:
    """Returns a new solver with the preferences of `solver`, and without its assertions."""
    new = ConstraintSolver(solver.store.least, search_steps)
    new.store.preference = solver.store.preference
    new.store.labelled = solver.store.labelled
    new.store.may_be_ragged = solver.store.may_be_ragged
    return new


def replay(
    assertions: Iterable[Assertion], solver: ConstraintSolver, *, solve: bool = True
) -> ConstraintSolver:
    """Returns a new solver with these assertions. Raises Conflict if they are unsatisfiable."""
    new = unconstrained(solver)
    for assertion in assertions:
        new.assert_(assertion)
    if solve:
        new.solve()
    return new
