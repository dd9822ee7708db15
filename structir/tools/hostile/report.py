"""`structir fuzz --hostile KIND`: runs the seeds of one kind and reports its failures."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import attrs

from structir.interrupts import interrupt_on_termination
from structir.lazy import lazy_module
from structir.tools.hostile.runs import Outcome, outcomes
from structir.tools.terminal import console, show

rich_progress = lazy_module("rich.progress")
cache = lazy_module("structir.system.cache")
MAX_SHOWN = 20  # failures; further ones are only counted


@attrs.define(eq=False)
class HostileRun:
    """The outcomes of a run."""

    kind: str
    passed: int = 0
    failures: list[Outcome] = attrs.Factory(list)
    interrupted: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.passed} passed, {len(self.failures)} failures"

    def run(self, seeds: Iterable[int], total: int | None) -> None:
        """Runs the seeds under a progress bar, with an empty cache of machine code."""
        bar = rich_progress.Progress(console=console(stderr=True), transient=True)
        with interrupt_on_termination(), bar, tempfile.TemporaryDirectory() as folder:
            task = bar.add_task(self.kind, total=total)
            try:
                for outcome in outcomes(self.kind, seeds, {cache.LOCATION: folder}):
                    self.record(outcome)
                    bar.update(task, advance=1, description=str(self))
            except KeyboardInterrupt:
                self.interrupted = True

    def record(self, outcome: Outcome) -> None:
        """Records an outcome; shows a failure with the command that reproduces it."""
        if outcome.error is None:
            self.passed += 1
            return
        self.failures.append(outcome)
        if len(self.failures) <= MAX_SHOWN:
            show(f"error: {outcome.error}\n  --> {outcome.command}")

    def data(self) -> dict[str, Any]:
        """Returns the results as plain data."""
        failures = [attrs.asdict(each) | {"command": each.command} for each in self.failures]
        return {"passed": self.passed, "failures": failures, "interrupted": self.interrupted}
