"""Records a trace of passes, written as JSON or as a page of the explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from structir.ir.module import IRModule
from structir.lazy import provided_module
from structir.passes.base import Instrument, PassRun
from structir.passes.manager.printing import difference

explorer = provided_module("explorer")


@attrs.define(eq=False)
class Trace(Instrument):
    """An instrument that records every run of a pass with its changes."""

    steps: list[PassRun] = attrs.field(factory=list, init=False)

    def begin(self, step: PassRun) -> None:
        self.steps.append(step)

    def records(self) -> list[dict[str, Any]]:
        """Returns each run as plain data: pass, options, depth, start and duration in seconds,
        diff."""
        first = self.steps[0].start if self.steps else 0.0
        return [record(step, first) for step in self.steps]

    def page(self) -> str:
        """Returns a self-contained HTML page: the explorer of the programs, with the passes, their
        times and their diffs."""
        before = self.steps[0].before if self.steps else IRModule()
        text: str = explorer.page(before, "passes", self.steps)
        return text

    def write(self, file: Path) -> None:
        """Writes the trace: a page if the file name ends in .html, else JSON."""
        if file.suffix == ".html":
            file.write_text(self.page(), encoding="utf-8")
        else:
            file.write_text(json.dumps(self.records(), indent=1) + "\n", encoding="utf-8")


def record(step: PassRun, first: float) -> dict[str, Any]:
    """Returns one run of a pass as plain data; times are relative to `first`."""
    return {
        "pass": step.applied.name,
        "options": {name: str(value) for name, value in step.applied.options.items()},
        "depth": step.depth,
        "start": step.start - first,
        "seconds": step.seconds,
        "changed": step.changed,
        "notes": step.notes,
        "difference": difference(step) if step.changed and step.after is not None else "",
    }
