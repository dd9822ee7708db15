"""Measures the size of the program before and after each pass."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from structir.ir.expr import Call, Function, If
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.lazy import lazy_module
from structir.passes.base import Instrument, PassRun

if TYPE_CHECKING:
    from rich.table import Table

tables = lazy_module("rich.table")


@attrs.frozen
class ModuleStatistics:
    """The size of a module, with nested functions and branches."""

    functions: int
    bindings: int
    calls: Counter[str]

    def changes(self, after: ModuleStatistics) -> str:
        """Returns the calls added and removed, as a number and a name each."""
        names = sorted({*self.calls, *after.calls})
        changed = [(after.calls[name] - self.calls[name], name) for name in names]
        return ", ".join(f"{count:+d} {name}" for count, name in changed if count)


def module_statistics(module: IRModule) -> ModuleStatistics:
    """Returns the size of a module."""
    functions, bindings, calls = 0, 0, Counter[str]()
    todo = [f for f in module.functions.values() if isinstance(f, Function)]
    bodies = [function.body for function in todo]
    functions = len(todo)
    while bodies:
        for binding in bodies.pop().bindings():
            bindings += 1
            value = binding.value
            if isinstance(value, Call):
                calls[value.op.name if isinstance(value.op, Op) else "call"] += 1
            elif isinstance(value, If):
                bodies += [value.true_branch, value.false_branch]
            elif isinstance(value, Function):
                functions += 1
                bodies.append(value.body)
    return ModuleStatistics(functions, bindings, calls)


@attrs.define(eq=False)
class Statistics(Instrument):
    """An instrument that records the size of the program before and after each pass."""

    rows: list[tuple[PassRun, ModuleStatistics, ModuleStatistics]] = attrs.field(
        factory=list, init=False
    )

    def end(self, step: PassRun) -> None:
        if step.applied.made_of or step.after is None:
            return
        before = module_statistics(step.before)
        self.rows.append((step, before, module_statistics(step.after) if step.changed else before))

    def table(self) -> Table:
        """Returns a table of the sizes."""
        table = tables.Table("pass", "functions", "bindings", "calls", box=None)
        for step, before, after in self.rows:
            table.add_row(
                "  " * step.depth + str(step.applied),
                f"{before.functions} → {after.functions}",
                f"{before.bindings} → {after.bindings}",
                before.changes(after) if step.changed else "unchanged",
            )
            for text in step.notes:
                table.add_row("  " * step.depth + f"  [dim]{text}[/dim]")
        return table  # type: ignore[no-any-return]
