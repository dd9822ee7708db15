"""Measures the time of each pass, as a tree of passes and sub-passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from structir.lazy import lazy_module
from structir.passes.base import Instrument, PassRun

if TYPE_CHECKING:
    from rich.tree import Tree

trees = lazy_module("rich.tree")


@attrs.define(eq=False)
class Timing(Instrument):
    """An instrument that records the time of every pass."""

    steps: list[PassRun] = attrs.field(factory=list, init=False)

    def begin(self, step: PassRun) -> None:
        self.steps.append(step)

    @property
    def total(self) -> float:
        """The total seconds of the outermost passes."""
        return sum(step.seconds for step in self.steps if step.depth == 0)

    def tree(self) -> Tree:
        """Returns a tree of the times, each with its share of the total."""
        root = trees.Tree(f"[bold]{self.total * 1e3:.2f} ms[/bold]")
        levels = [root]
        for step in self.steps:
            part = step.seconds / self.total if self.total else 0.0
            label = f"{step.seconds * 1e3:9.2f} ms {part:6.1%}  {step.applied}"
            del levels[step.depth + 1 :]
            levels.append(levels[-1].add(label, style="" if step.changed else "dim"))
        return levels[0]  # type: ignore[no-any-return]
