"""Prints the program before and after passes, in full or as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection

import attrs

from structir.passes.base import Instrument, PassRun

ALL = "all"
Show = Callable[[str, str], None]


@attrs.define(eq=False)
class Printing(Instrument):
    """An instrument that passes the source of the program, with a heading, to `show`.

    `before` and `after` contain names of passes, or "all"; `changes` selects a diff for each pass.
    """

    show: Show
    before: Collection[str] = ()
    after: Collection[str] = ()
    changes: bool = False

    def begin(self, step: PassRun) -> None:
        if _named(step, self.before):
            self.show(f"before {step.applied}", step.before.script())

    def end(self, step: PassRun) -> None:
        assert step.after is not None
        if _named(step, self.after):
            self.show(f"after {step.applied}", step.after.script())
        if self.changes and step.changed:
            self.show(f"changed by {step.applied}", difference(step))


def difference(step: PassRun) -> str:
    """Returns the changes of a pass as a unified diff."""
    assert step.after is not None
    old, new = (module.script().splitlines() for module in (step.before, step.after))
    return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm="", n=2))


def _named(step: PassRun, names: Collection[str]) -> bool:
    return ALL in names or not {step.applied.name, *step.applied.aliases}.isdisjoint(names)
