"""The solver's memory: bindings, bounds, watch lists, the agenda, and the trail that undoes them.

Every fact is kept with its reason. `used` collects the reasons of the facts that the running rule
has read; whatever the rule concludes rests on them and on the constraint itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from structir.errors import DiagnosticError
from structir.ir.polynomial import Dim, Monomial, Poly, Sym, substitute
from structir.solver.constraints.constraint import Constraint
from structir.solver.domains.reasons import NO_REASON, Conflict, Reason
from structir.solver.domains.terms import (
    RAGGED_SYMS,
    Row,
    RowVar,
    Variable,
    row_vars,
    sizes,
    variables,
)

C = TypeVar("C", bound=Constraint)
Rule = Callable[["ConstraintStore", Any], bool]

RULES: dict[type[Constraint], Rule] = {}
UNLIMITED = 1 << 62
ANONYMOUS, NAMED, PARAMETER = 1, 2, 3  # how much a variable is the user's
_MISSING = object()


def rule(
    kind: type[C],
) -> Callable[[Callable[[ConstraintStore, C], bool]], Callable[[ConstraintStore, C], bool]]:
    """Register the rule of a kind of constraint; it returns whether the constraint is settled."""

    def register(
        function: Callable[[ConstraintStore, C], bool],
    ) -> Callable[[ConstraintStore, C], bool]:
        RULES[kind] = function
        return function

    return register


class ActiveConstraint:
    """A constraint at work, with the reason for it and how often it came back."""

    __slots__ = ("constraint", "queued", "reason", "seen", "tightened")

    def __init__(self, constraint: Constraint, reason: Reason) -> None:
        self.constraint = constraint
        self.reason = reason
        self.queued = False
        self.seen = False  # whether it has said what it says once
        self.tightened = 0  # how often it moved a bound: such rules may go on for ever


class ConstraintStore:
    """What is known so far."""

    def __init__(self, least: int = 1) -> None:
        self.least = least  # no size is smaller
        self.may_be_ragged = False  # whether a ragged axis occurs anywhere
        self.labelled = False  # whether some axis carries a label
        self.dims: dict[Sym, Dim] = {}
        self.row_of: dict[RowVar, Row] = {}
        self.reasons: dict[Variable, Reason] = {}
        self.lows: dict[Sym, int] = {}
        self.highs: dict[Sym, int] = {}
        self.ceilings: dict[Sym, int] = {}  # a variable is 1 or this constant
        self.rank_lows: dict[RowVar, int] = {}
        self.rank_highs: dict[RowVar, int] = {}
        self.bound_reasons: dict[tuple[str, Variable], Reason] = {}
        self.joins: dict[frozenset[Dim], tuple[Dim, Reason]] = {}
        self.parts: dict[Sym, tuple[tuple[Dim, ...], Reason]] = {}  # what a size is the join of
        self.orders: dict[tuple[Dim, Dim], Reason] = {}  # sizes that broadcast to others
        self.elements: dict[RowVar, Dim] = {}  # the product of a row's sizes
        self.mirrors: dict[RowVar, RowVar] = {}  # a row read backwards
        self.rewrites: dict[Monomial, tuple[Dim, Reason]] = {}  # products of known value
        self.covers: dict[RowVar, tuple[tuple[Row, ...], Reason]] = {}  # the same for rows
        self.row_joins: dict[frozenset[Row], tuple[Row, Reason]] = {}
        self.windows: dict[tuple[Dim, int], tuple[Dim, Reason]] = {}
        self.labels: dict[Sym, Sym | str] = {}  # a union-find over axes; its roots are names
        self.label_reasons: dict[Sym, Reason] = {}
        self.preference: dict[Sym, int] = {}  # those not here are the solver's own
        self.watchers: dict[Variable, dict[ActiveConstraint, None]] = {}
        self.open: dict[ActiveConstraint, None] = {}
        self.derived_once: dict[object, None] = {}
        self.agenda: deque[ActiveConstraint] = deque()
        self.trail: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self.steps = 0  # counts rules run
        self.limit = UNLIMITED  # where a try stops
        self.version = 0  # counts what has been learnt
        self.tries = 0  # marks that are not popped yet
        self.used: list[Reason] = []
        self.current: Reason = NO_REASON
        self.running: ActiveConstraint | None = None
        self.assumed: list[tuple[Dim, Dim, Reason]] = []  # ragged axes of one length, by assumption

    # Reading

    def dim(self, dim: Dim) -> Dim:
        """A size with everything known put in."""
        if type(dim) is int:
            return dim
        bound = self.dims
        if not bound:
            return dim
        terms = dim.terms  # type: ignore[union-attr]
        if len(terms) == 1 and not dim.constant:  # type: ignore[union-attr]
            for monomial, coefficient in terms.items():
                if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
                    symbol = monomial[0]
                    return self._value(symbol) if symbol in bound else dim
        return self._polynomial(dim)

    def _polynomial(self, dim: Dim) -> Dim:
        bound = self.dims
        while True:
            hits: dict[Sym, Dim] = {}
            for symbol in variables(dim):
                if symbol in bound and symbol not in hits:
                    hits[symbol] = bound[symbol]
                    self.used.append(self.reasons[symbol])
            if not hits:
                return dim
            dim = substitute(dim, hits)

    def normalized(self, dim: Dim) -> Dim:
        """A size with everything known put in, products of known value included."""
        dim = self.dim(dim)
        if type(dim) is int or not self.rewrites:
            return dim
        for monomial, coefficient in dim.terms.items():  # type: ignore[union-attr]
            if monomial in self.rewrites:
                value, why = self.rewrites[monomial]
                self.used.append(why)
                term = Poly({monomial: coefficient}, 0)
                return self.normalized(dim - term + value * coefficient)
        return dim

    def _value(self, symbol: Sym) -> Dim:
        """The value of a bound variable; the way there is shortened where nothing may be undone."""
        bound, way = self.dims, [symbol]
        value = bound[symbol]
        while type(value) is Poly:
            following = _single_symbol(value)
            if following is None or following not in bound:
                break
            way.append(following)
            value = bound[following]
        reasons = [self.reasons[step] for step in way]
        if type(value) is Poly and _single_symbol(value) is None:
            mark = len(self.used)
            value = self._polynomial(value)
            reasons += self.used[mark:]
            del self.used[mark:]
        reason: Reason = reasons[0] if len(reasons) == 1 else tuple(reasons)
        if len(reasons) > 1 and self.trail is None:
            for place, step in enumerate(way):
                bound[step] = value
                self.reasons[step] = tuple(reasons[place:])
        self.used.append(reason)
        return value

    def row(self, row: Row) -> Row:
        """A row with everything known of its row variables put in; its sizes stay as they are."""
        for element in row:
            if type(element) is RowVar and element in self.row_of:
                return self._expand(row)
        return row

    def _expand(self, row: Row) -> Row:
        known, stack = self.row_of, list(reversed(row))
        found: list[Any] = []
        while stack:
            element = stack.pop()
            if type(element) is RowVar and element in known:
                self.used.append(self.reasons[element])
                stack += reversed(known[element])
            else:
                found.append(element)
        return tuple(found)

    def low(self, symbol: Sym) -> int:
        """The least value of an open variable."""
        low = self.lows.get(symbol)
        if low is None:
            return 2 if symbol in RAGGED_SYMS else self.least
        self.used.append(self.bound_reasons["low", symbol])
        return low

    def high(self, symbol: Sym) -> int | None:
        """The greatest value of an open variable; None where there is no limit."""
        high = self.highs.get(symbol)
        if high is not None:
            self.used.append(self.bound_reasons["high", symbol])
        return high

    # Concluding

    def reason(self) -> Reason:
        """What a conclusion of the running rule rests on."""
        return (self.current, *self.used) if self.used else self.current

    def conflict(self, message: str) -> Conflict:
        """The conflict that the running rule has found."""
        return Conflict(message, self.reason())

    def set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Change a mapping so that the change can be undone."""
        if self.trail is not None:
            self.trail.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def discard(self, mapping: dict[Any, Any], key: Any) -> None:
        """Remove a key so that it can come back."""
        if key in mapping:
            if self.trail is not None:
                self.trail.append((mapping, key, mapping[key]))
            del mapping[key]

    def bind(self, variable: Variable, value: Any) -> None:
        """An open variable is this from now on."""
        mapping: dict[Any, Any] = self.dims if type(variable) is Sym else self.row_of
        self.set(mapping, variable, value)
        self.set(self.reasons, variable, self.reason())
        self.wake(variable)

    def wake(self, variable: Variable) -> None:
        """Something new is known of a variable: whoever watches it has work."""
        self.version += 1
        watching = self.watchers.get(variable)
        if watching:
            for active in watching:
                if not active.queued and active in self.open:
                    active.queued = True
                    self.agenda.append(active)

    # Constraints

    def post(self, constraint: Constraint) -> ActiveConstraint:
        """A further constraint, for the reason of whatever is running."""
        active = ActiveConstraint(constraint, self.reason())
        active.queued = True
        self.set(self.open, active, None)
        self.agenda.append(active)
        return active

    def repost(self, constraint: Constraint) -> None:
        """What is left of the running constraint; what it says at its first run is said."""
        self.post(constraint).seen = True

    def is_first_run(self) -> bool:
        """Whether the running constraint runs for the first time; asked once in a run."""
        if self.running is None or self.running.seen:
            return False
        self.running.seen = True
        return True

    def run(self) -> None:
        """Propagate until nothing new follows."""
        agenda = self.agenda
        while agenda:
            active = agenda.popleft()
            active.queued = False
            if active not in self.open:
                continue
            self.steps += 1
            if self.steps > self.limit:
                return
            self.begin(active.reason, active)
            constraint, version = active.constraint, self.version
            try:
                if RULES[type(constraint)](self, constraint):
                    self.discard(self.open, active)
                    continue
                self._watch(active, constraint)
            except DiagnosticError as error:  # some size cannot be: it is divided by 0
                raise self.conflict(error.diagnostics[0].message) from None
            if self.version != version and not active.queued:  # it has taught itself something
                active.queued = True
                agenda.append(active)
        self.begin(NO_REASON)

    def begin(self, reason: Reason, active: ActiveConstraint | None = None) -> None:
        """Conclusions from here on rest on this reason."""
        self.current = reason
        self.running = active
        self.used.clear()

    def may_tighten(self) -> bool:
        """Whether the running constraint may move one more bound."""
        if self.running is None:
            return True
        self.running.tightened += 1
        return self.running.tightened <= 8

    def _watch(self, active: ActiveConstraint, constraint: Constraint) -> None:
        for dim in constraint.dims():
            self._watch_all(active, variables(self.dim(dim)))
        for row in constraint.rows():
            row = self.row(row)
            self._watch_all(active, row_vars(row))
            if not constraint.of_sizes:
                continue
            for size in sizes(row):
                self._watch_all(active, variables(self.dim(size)))

    def _watch_all(self, active: ActiveConstraint, found: Iterable[Variable]) -> None:
        for variable in found:
            watching = self.watchers.setdefault(variable, {})
            if active not in watching:
                self.set(watching, active, None)

    # Trying

    def push(self) -> int:
        """A mark to come back to; the agenda must be empty."""
        self.tries += 1
        if self.trail is None:
            self.trail = []
        return len(self.trail)

    def pop(self, mark: int) -> None:
        """Undo everything since the mark."""
        trail = self.trail or []
        while len(trail) > mark:
            mapping, key, old = trail.pop()
            if old is _MISSING:
                mapping.pop(key, None)
            else:
                mapping[key] = old
        for active in self.agenda:
            active.queued = False
        self.agenda.clear()
        self.tries -= 1
        if not self.tries:
            self.trail = None


def _single_symbol(dim: Poly) -> Sym | None:
    if len(dim.terms) == 1 and not dim.constant:
        for monomial, coefficient in dim.terms.items():
            if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
                return monomial[0]
    return None
