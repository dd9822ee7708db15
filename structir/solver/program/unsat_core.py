"""Unsatisfiable cores: a minimal set of conflicting assertions of a program."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.errors import Diagnostic
from structir.solver.domains.reasons import Conflict, Origin, origins
from structir.solver.solver import (
    Assertion,
    ConstraintSolver,
    HasShape,
    SchemeApplication,
    Value,
    unconstrained,
)

PREMISE_KINDS = ("parameter", "fact")  # premises; ops and annotations may be wrong
TRIALS = 64
STEPS = 8_000  # assertions and rule runs of all trials; seconds would depend on the machine
STEPS_PER_TRIAL = 500  # rule runs of a search; an unfinished one counts as satisfiable
SMALL = 256  # assertions up to which the earliest conflict is searched for


@attrs.frozen
class UnsatCore:
    """A set of conflicting assertions; `minimal` if none of them can be removed."""

    message: str
    premises: tuple[Origin, ...]  # parameters and assumptions that the conflict depends on
    culprits: tuple[Origin, ...]  # in program order
    minimal: bool
    code: str = "E0401"

    @property
    def blamed(self) -> Origin | None:
        """The assertion at which the program becomes unsatisfiable."""
        return self.culprits[-1] if self.culprits else None

    def diagnostic(self) -> Diagnostic:
        """Returns the conflict as a diagnostic at the last located assertion."""
        asserted = dict.fromkeys((*self.premises, *self.culprits))
        spans = [origin.span for origin in asserted if origin.span is not None]
        location = spans[-1] if spans else None
        diagnostic = Diagnostic(f"conflicting shapes: {self.message}", location, code=self.code)
        for origin in asserted:
            diagnostic = diagnostic.note(origin.text or origin.label, origin.span)
        if self.minimal and len(self.culprits) > 1:
            names = ", ".join(dict.fromkeys(map(_name, self.culprits)))
            return diagnostic.hinted(f"change or remove one of {names}; each resolves the conflict")
        return diagnostic


def _name(origin: Origin) -> str:
    """Returns the name of an assertion for messages."""
    return f"`{origin.label}`" if origin.kind == "op" else origin.text or origin.label


def explain(
    solver: ConstraintSolver, conflict: Conflict, *, trials: int = TRIALS, steps: int = STEPS
) -> UnsatCore:
    """Returns a minimal set of conflicting assertions of a solver that raised `conflict`."""
    minimizer = _CoreMinimizer(solver, trials, steps)
    premises = [s for s in solver.assertions if s.origin.kind in PREMISE_KINDS]
    others = [s for s in solver.assertions if s.origin.kind not in PREMISE_KINDS]
    if len(others) <= SMALL:  # an earlier prefix may conflict already
        others, conflict = minimizer.earliest(premises, others, conflict)
    reported = set(origins(conflict.reason))
    suspects = [s for s in others if s.origin in reported]
    if minimizer.conflict(premises, suspects) is None:  # the reason is incomplete
        if minimizer.conflict(premises, others) is None:  # it is not due to assertions alone
            minimizer.exhausted = True
        else:
            suspects = others
    minimal = suspects if minimizer.exhausted else minimizer.shrink(premises, suspects)
    core_conflict = minimizer.conflict(premises, minimal) or conflict
    reasons = set(origins(core_conflict.reason))
    operands = {value for s in minimal if isinstance(s, SchemeApplication) for value in s.operands}
    return UnsatCore(
        core_conflict.message,
        tuple([s.origin for s in premises if s.origin in reasons or _declares(s, operands)]),
        tuple([s.origin for s in minimal]),
        not minimizer.exhausted,
        core_conflict.code,
    )


def _declares(assertion: Assertion, values: set[Value]) -> bool:
    """Returns whether an assertion declares the shape of one of these values."""
    return isinstance(assertion, HasShape) and assertion.value in values


class _CoreMinimizer:
    """Removes assertions while the remaining ones conflict, within limits on trials and steps."""

    def __init__(self, solver: ConstraintSolver, trials: int, steps: int) -> None:
        self.solver = solver
        self.order = {id(s): k for k, s in enumerate(solver.assertions)}
        self.trials = trials
        self.steps = steps  # that are left to further trials
        self.exhausted = False

    def conflict(
        self, premises: Sequence[Assertion], others: Sequence[Assertion]
    ) -> Conflict | None:
        """Returns the conflict of these assertions, or None."""
        assertions = sorted((*premises, *others), key=lambda s: self.order[id(s)])
        solver = unconstrained(self.solver, STEPS_PER_TRIAL)
        try:
            for assertion in assertions:
                solver.assert_(assertion)
            solver.solve()
        except Conflict as conflict:
            return conflict
        finally:
            self.steps -= len(assertions) + solver.store.steps
        return None

    def earliest(
        self, premises: Sequence[Assertion], others: list[Assertion], conflict: Conflict
    ) -> tuple[list[Assertion], Conflict]:
        """Returns the shortest conflicting prefix of the assertions, and its conflict."""
        consistent, conflicting = -1, len(others)  # lengths of prefixes
        while conflicting - consistent > 1:
            middle = (consistent + conflicting) // 2
            middle_conflict = self.conflict(premises, others[:middle])
            if middle_conflict is None:
                consistent = middle
            else:
                conflicting, conflict = middle, middle_conflict
        return others[:conflicting], conflict

    def shrink(self, premises: Sequence[Assertion], suspects: list[Assertion]) -> list[Assertion]:
        """Returns suspects none of which can be removed: tries halves first, then single ones."""
        size = len(suspects) // 2
        remaining = suspects
        while size >= 1:
            index = 0
            while index < len(remaining):
                if self.trials <= 0 or self.steps <= 0:
                    self.exhausted = True
                    return remaining
                self.trials -= 1
                fewer = remaining[:index] + remaining[index + size :]
                if self.conflict(premises, fewer) is not None:
                    remaining = fewer
                else:
                    index += size
            size = min(size // 2, len(remaining)) if size > 1 else 0
        return remaining
