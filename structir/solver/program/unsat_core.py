"""Why a program is impossible: the smallest set of its statements that cannot hold together."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import attrs

from structir.errors import Diagnostic
from structir.solver.domains.reasons import Conflict, Origin, origins
from structir.solver.solver import Applied, Assertion, HasShape, Solver, Value, replay

GIVEN = ("parameter", "fact")  # taken as they are; ops and annotations are what may be wrong
TRIALS = 64
SECONDS = 0.2
SMALL = 256  # statements, of which every beginning may be tried


@attrs.frozen
class UnsatCore:
    """A set of statements that cannot all hold; `minimal` when none of them can be left out."""

    message: str
    given: tuple[Origin, ...]  # parameters and facts that the conflict rests on
    culprits: tuple[Origin, ...]  # in program order
    minimal: bool

    @property
    def blamed(self) -> Origin | None:
        """The statement at which the program stops being possible."""
        return self.culprits[-1] if self.culprits else None

    def diagnostic(self) -> Diagnostic:
        """The conflict as a message at the last statement with a place; all are notes."""
        spans = [origin.span for origin in (*self.given, *self.culprits) if origin.span is not None]
        place = spans[-1] if spans else None
        diagnostic = Diagnostic(f"shape conflict: {self.message}", place, code="E0401")
        for origin in (*self.given, *self.culprits):
            diagnostic = diagnostic.note(origin.text or origin.label, origin.span)
        if self.minimal and len(self.culprits) > 1:
            names = ", ".join(map(_name, self.culprits))
            return diagnostic.hinted(f"removing any one of {names} removes the conflict")
        return diagnostic


def _name(origin: Origin) -> str:
    """What a statement is called in a sentence."""
    return f"`{origin.label}`" if origin.kind == "op" else origin.text or origin.label


def explain(
    solver: Solver, conflict: Conflict, *, trials: int = TRIALS, seconds: float = SECONDS
) -> UnsatCore:
    """The explanation of the conflict that a solver ran into."""
    shrinking = _CoreMinimizer(solver, trials, monotonic() + seconds)
    given = [s for s in solver.statements if s.origin.kind in GIVEN]
    said = [s for s in solver.statements if s.origin.kind not in GIVEN]
    if len(said) <= SMALL:  # what was found at the end may have been so for long
        said, conflict = shrinking.earliest(given, said, conflict)
    found = set(origins(conflict.reason))
    suspects = [s for s in said if s.origin in found]
    if shrinking.conflict(given, suspects) is None:  # the reason rests on more than it tells
        suspects = said
    minimal = shrinking.shrink(given, suspects)
    last = shrinking.conflict(given, minimal) or conflict
    rests_on = set(origins(last.reason))
    read = {value for s in minimal if isinstance(s, Applied) for value in s.operands}
    return UnsatCore(
        last.message,
        tuple([s.origin for s in given if s.origin in rests_on or _declares(s, read)]),
        tuple([s.origin for s in minimal]),
        not shrinking.exhausted,
    )


def _declares(statement: Assertion, values: set[Value]) -> bool:
    """Whether a statement gives one of these values its shape."""
    return isinstance(statement, HasShape) and statement.value in values


class _CoreMinimizer:
    """Drops statements as long as the rest still conflicts, within limits."""

    def __init__(self, solver: Solver, trials: int, until: float) -> None:
        self.solver = solver
        self.order = {id(s): k for k, s in enumerate(solver.statements)}
        self.trials = trials
        self.until = until
        self.exhausted = False

    def conflict(self, given: Sequence[Assertion], kept: Sequence[Assertion]) -> Conflict | None:
        """The conflict of these statements, if they have one."""
        statements = sorted((*given, *kept), key=lambda s: self.order[id(s)])
        try:
            replay(statements, self.solver)
        except Conflict as conflict:
            return conflict
        return None

    def earliest(
        self, given: Sequence[Assertion], said: list[Assertion], conflict: Conflict
    ) -> tuple[list[Assertion], Conflict]:
        """The shortest beginning of a program that conflicts, and its conflict."""
        holds, fails = -1, len(said)  # so many statements
        while fails - holds > 1:
            middle = (holds + fails) // 2
            found = self.conflict(given, said[:middle])
            if found is None:
                holds = middle
            else:
                fails, conflict = middle, found
        return said[:fails], conflict

    def shrink(self, given: Sequence[Assertion], suspects: list[Assertion]) -> list[Assertion]:
        """Suspects none of which can be dropped: halves are tried first, then single ones."""
        size = len(suspects) // 2
        kept = suspects
        while size >= 1:
            place = 0
            while place < len(kept):
                if self.trials <= 0 or monotonic() > self.until:
                    self.exhausted = True
                    return kept
                self.trials -= 1
                fewer = kept[:place] + kept[place + size :]
                if self.conflict(given, fewer) is not None:
                    kept = fewer
                else:
                    place += size
            size = min(size // 2, len(kept)) if size > 1 else 0
        return kept
