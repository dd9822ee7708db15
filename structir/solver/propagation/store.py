"""The constraint store: bindings, bounds, watch lists, the agenda, and the trail for backtracking.

Every fact is stored with its reason. `used` collects the reasons of the facts that the running rule
reads; each conclusion of the rule depends on them and on the constraint itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from structir.errors import DiagnosticError
from structir.ir.polynomial import Dim, Monomial, Opaque, Poly, Sym, substitute
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
ANONYMOUS, NAMED, PARAMETER = 1, 2, 3  # preference levels of variables in results
_MISSING = object()


def rule(
    kind: type[C],
) -> Callable[[Callable[[ConstraintStore, C], bool]], Callable[[ConstraintStore, C], bool]]:
    """Registers the rule of a constraint class; it returns whether the constraint is settled."""

    def register(
        function: Callable[[ConstraintStore, C], bool],
    ) -> Callable[[ConstraintStore, C], bool]:
        RULES[kind] = function
        return function

    return register


class ActiveConstraint:
    """A constraint in the store, with its reason and its scheduling state."""

    __slots__ = ("constraint", "has_run", "queued", "reason", "tightened")

    def __init__(self, constraint: Constraint, reason: Reason) -> None:
        self.constraint = constraint
        self.reason = reason
        self.queued = False
        self.has_run = False  # whether its rule has run
        self.tightened = 0  # number of bounds it moved; limited, since such rules may not terminate


class ConstraintStore:
    """The facts derived from all constraints, with reasons."""

    def __init__(self, least: int = 1) -> None:
        self.least = least  # lower bound of all sizes
        self.may_be_ragged = False  # whether a ragged axis occurs anywhere
        self.dense: dict[Sym, None] = {}  # open sizes that are not ragged
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
        self.join_operands: dict[Sym, tuple[tuple[Dim, ...], Reason]] = {}
        self.broadcast_reasons: dict[tuple[Dim, Dim], Reason] = {}  # of pairs that broadcast
        self.elements: dict[RowVar, Dim] = {}  # number of elements of a row variable
        self.mirrors: dict[RowVar, RowVar] = {}  # the reverse of a row variable
        self.rewrites: dict[Monomial, tuple[Dim, Reason]] = {}  # products of known value
        self.row_join_operands: dict[RowVar, tuple[tuple[Row, ...], Reason]] = {}
        self.row_joins: dict[frozenset[Row], tuple[Row, Reason]] = {}
        self.windows: dict[tuple[Dim, int], tuple[Dim, Reason]] = {}
        self.labels: dict[Sym, Sym | str] = {}  # a union-find over axes; its roots are labels
        self.label_reasons: dict[Sym, Reason] = {}
        self.preference: dict[
            Sym, int
        ] = {}  # variables without an entry are internal to the solver
        self.watchers: dict[Variable, dict[ActiveConstraint, None]] = {}
        self.open: dict[ActiveConstraint, None] = {}
        self.derived_once: dict[object, None] = {}
        self.agenda: deque[ActiveConstraint] = deque()
        self.trail: list[tuple[dict[Any, Any], Any, Any]] | None = None
        self.steps = 0  # number of rule runs
        self.limit = UNLIMITED  # of `steps`
        self.version = 0  # number of changes
        self.backtracking_points = 0  # number of open ones
        self.used: list[Reason] = []
        self.current: Reason = NO_REASON
        self.running: ActiveConstraint | None = None
        self.assumed: list[tuple[Dim, Dim, Reason]] = []  # ragged axes of one length, by assumption

    # Queries

    def dim(self, dim: Dim) -> Dim:
        """Returns a size with all bindings substituted."""
        if type(dim) is int:
            return dim
        bindings = self.dims
        if not bindings:
            return dim
        terms = dim.terms  # type: ignore[union-attr]
        if len(terms) == 1 and not dim.constant:  # type: ignore[union-attr]
            for monomial, coefficient in terms.items():
                if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
                    symbol = monomial[0]
                    return self._value(symbol) if symbol in bindings else dim
        return self._polynomial(dim)

    def _polynomial(self, dim: Dim) -> Dim:
        bindings = self.dims
        while True:
            hits: dict[Sym, Dim] = {}
            for symbol in variables(dim):
                if symbol in bindings and symbol not in hits:
                    hits[symbol] = bindings[symbol]
                    self.used.append(self.reasons[symbol])
            if not hits:
                return dim
            dim = substitute(dim, hits)

    def normalize(self, dim: Dim) -> Dim:
        """Returns a size with all bindings and all products of known value substituted."""
        dim = self.dim(dim)
        done: set[Monomial] = set()  # values of products may mention each other
        while type(dim) is Poly and self.rewrites:
            known = [m for m in dim.terms if m in self.rewrites and m not in done]
            if not known:
                break
            done.add(monomial := known[0])
            value, reason = self.rewrites[monomial]
            mark = len(self.used)
            value = self.dim(value)
            if _mentions_product(value, monomial):  # the product is the simpler term
                del self.used[mark:]
                continue
            self.used.append(reason)
            coefficient = dim.terms[monomial]
            dim = self.dim(dim - Poly({monomial: coefficient}, 0) + value * coefficient)
        return dim

    def _value(self, symbol: Sym) -> Dim:
        """Returns the value of a bound variable; compresses the path if nothing can be undone."""
        bindings, chain = self.dims, [symbol]
        value = bindings[symbol]
        while type(value) is Poly:
            next_symbol = _single_symbol(value)
            if next_symbol is None or next_symbol not in bindings:
                break
            chain.append(next_symbol)
            value = bindings[next_symbol]
        reasons = [self.reasons[link] for link in chain]
        if type(value) is Poly and _single_symbol(value) is None:
            mark = len(self.used)
            value = self._polynomial(value)
            reasons += self.used[mark:]
            del self.used[mark:]
        reason: Reason = reasons[0] if len(reasons) == 1 else tuple(reasons)
        if len(reasons) > 1 and self.trail is None:
            for index, link in enumerate(chain):
                bindings[link] = value
                self.reasons[link] = tuple(reasons[index:])
        self.used.append(reason)
        return value

    def row(self, row: Row) -> Row:
        """Returns a row with its row variables expanded; its sizes are not substituted."""
        for element in row:
            if type(element) is RowVar and element in self.row_of:
                return self._expand(row)
        return row

    def _expand(self, row: Row) -> Row:
        bindings, stack = self.row_of, list(reversed(row))
        elements: list[Any] = []
        while stack:
            element = stack.pop()
            if type(element) is RowVar and element in bindings:
                self.used.append(self.reasons[element])
                stack += reversed(bindings[element])
            else:
                elements.append(element)
        return tuple(elements)

    def low(self, symbol: Sym) -> int:
        """Returns the least value of an open variable."""
        low = self.lows.get(symbol)
        if low is None:
            return 2 if symbol in RAGGED_SYMS else self.least
        if low:  # every size is at least 0
            self.used.append(self.bound_reasons["low", symbol])
        return low

    def high(self, symbol: Sym) -> int | None:
        """Returns the greatest value of an open variable; None for no limit."""
        high = self.highs.get(symbol)
        if high is not None:
            self.used.append(self.bound_reasons["high", symbol])
        return high

    # Conclusions

    def reason(self) -> Reason:
        """Returns the reason for a conclusion of the running rule."""
        return (self.current, *self.used) if self.used else self.current

    def conflict(self, message: str, code: str = "E0401") -> Conflict:
        """Returns a Conflict with the reason of the running rule."""
        return Conflict(message, self.reason(), code)

    def set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Sets a key of a mapping, undoably."""
        if self.trail is not None:
            self.trail.append((mapping, key, mapping.get(key, _MISSING)))
        mapping[key] = value

    def discard(self, mapping: dict[Any, Any], key: Any) -> None:
        """Removes a key of a mapping, undoably."""
        if key in mapping:
            if self.trail is not None:
                self.trail.append((mapping, key, mapping[key]))
            del mapping[key]

    def bind(self, variable: Variable, value: Any) -> None:
        """Binds an open variable."""
        mapping: dict[Any, Any] = self.dims if type(variable) is Sym else self.row_of
        self.set(mapping, variable, value)
        self.set(self.reasons, variable, self.reason())
        self.wake(variable)

    def wake(self, variable: Variable) -> None:
        """Schedules the constraints that watch a variable."""
        self.version += 1
        watching = self.watchers.get(variable)
        if watching:
            for active in watching:
                if not active.queued and active in self.open:
                    active.queued = True
                    self.agenda.append(active)

    # Constraints

    def post(self, constraint: Constraint) -> ActiveConstraint:
        """Adds a constraint, with the reason of the running rule."""
        active = ActiveConstraint(constraint, self.reason())
        active.queued = True
        self.set(self.open, active, None)
        self.agenda.append(active)
        return active

    def repost(self, constraint: Constraint) -> None:
        """Adds the rest of the running constraint, without repeating its first-run conclusions."""
        self.post(constraint).has_run = True

    def is_first_run(self) -> bool:
        """Returns whether the running constraint runs for the first time; call once per run."""
        if self.running is None or self.running.has_run:
            return False
        self.running.has_run = True
        return True

    def run(self) -> None:
        """Propagates to a fixed point."""
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
            except DiagnosticError as error:  # a size is divided by 0
                raise self.conflict(error.diagnostics[0].message) from None
            # a rule that changed a variable runs again, since it may watch that variable
            if self.version != version and not active.queued:
                active.queued = True
                agenda.append(active)
        self.begin(NO_REASON)

    def begin(self, reason: Reason, active: ActiveConstraint | None = None) -> None:
        """Sets the reason for the following conclusions."""
        self.current = reason
        self.running = active
        self.used.clear()

    def may_tighten(self) -> bool:
        """Returns whether the running constraint may move one more bound."""
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

    def _watch_all(self, active: ActiveConstraint, watched: Iterable[Variable]) -> None:
        for variable in watched:
            watching = self.watchers.setdefault(variable, {})
            if active not in watching:
                self.set(watching, active, None)

    # Backtracking

    def push(self) -> int:
        """Starts a backtracking point and returns its mark; the agenda must be empty."""
        self.backtracking_points += 1
        if self.trail is None:
            self.trail = []
        return len(self.trail)

    def pop(self, mark: int) -> None:
        """Undoes everything since the mark."""
        trail = self.trail or []
        while len(trail) > mark:
            mapping, key, previous = trail.pop()
            if previous is _MISSING:
                mapping.pop(key, None)
            else:
                mapping[key] = previous
        for active in self.agenda:
            active.queued = False
        self.agenda.clear()
        self.backtracking_points -= 1
        if not self.backtracking_points:
            self.trail = None


def _single_symbol(dim: Poly) -> Sym | None:
    if len(dim.terms) == 1 and not dim.constant:
        for monomial, coefficient in dim.terms.items():
            if coefficient == 1 and len(monomial) == 1 and type(monomial[0]) is Sym:
                return monomial[0]
    return None


def _mentions_product(dim: Dim, monomial: Monomial) -> bool:
    """Returns whether a size mentions a product, or an opaque function of all its variables."""
    if type(dim) is Poly and monomial in dim.terms:
        return True
    factors = set(variables(Poly({monomial: 1}, 0)))
    atoms = [] if type(dim) is int else [a for m in dim.terms for a in m if type(a) is Opaque]  # type: ignore[union-attr]
    return any(factors <= {v for arg in atom.args for v in variables(arg)} for atom in atoms)
