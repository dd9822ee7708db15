"""The result of a search: the chosen plan, the candidates, and the reasons as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs

from structir.distributed.cut_reasons import reason
from structir.distributed.mesh_plan import MeshPlan
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.pinned_cuts import cut_text
from structir.distributed.search_space import SearchCandidate, SearchSpace
from structir.distributed.simulation import SimulatedCost, simulate
from structir.distributed.unit_cuts import AxisCut, ReductionCut, UnitCut
from structir.distributed.work_units import WorkUnit
from structir.ir.node import ShownAsText
from structir.lazy import lazy_module
from structir.system.locks import cached_property

if TYPE_CHECKING:
    from rich.table import Table

tables = lazy_module("rich.table")
consoles = lazy_module("rich.console")
ALTERNATIVES = 3  # shown for a value
DECISIONS = 40  # the most units of a program for which a table has alternatives


@attrs.frozen(repr=False)
class CutAlternative(ShownAsText):
    """Another cut of a value, and the time of the best plan with it on the same mesh."""

    cut: str
    seconds: float
    feasible: bool  # whether its memory is within the bound

    def __str__(self) -> str:
        note = "" if self.feasible else " (exceeds the memory)"
        return f"{self.cut}: {self.seconds:.3g} s{note}"


@attrs.frozen(eq=False)
class CutChoice:
    """The cut of one value, or of equal values of equal layers, and why it was chosen."""

    unit: WorkUnit
    count: int  # of equal units
    cut: str
    states: tuple[str, ...]  # as the value is computed, along each mesh axis
    seconds: float  # of one unit
    received: int  # bytes by all workers, for one unit
    reason: str


@attrs.frozen(eq=False, repr=False)
class SearchReport(ShownAsText):
    """The result of a search: the plan, its simulated cost, and why each cut was chosen.

    `print(report)` shows the tables. Calling the report runs the plan in this process.
    """

    program: MeshProgram
    candidates: tuple[SearchCandidate, ...]
    best: SearchCandidate
    space: SearchSpace
    search_seconds: float  # of process time

    @property
    def plan(self) -> MeshPlan:
        """The chosen plan at the sizes of the search."""
        return self.program.first_plan

    @property
    def cost(self) -> SimulatedCost:
        """The simulated cost of the chosen plan."""
        return self.best.cost

    def __call__(self, /, *args: Any, **names: Any) -> Any:
        """Runs the chosen plan in this process."""
        return self.program(*args, **names)

    @cached_property
    def choices(self) -> tuple[CutChoice, ...]:
        """The cut of every value, equal ones once, in order."""
        choices, mesh = self.best.choices, self.best.choices.mesh
        search = self.space.layout_search(mesh, choices.stages, choices.micro_batches)
        times = search.times(choices.cuts)
        groups: dict[Any, list[int]] = {}
        for unit, cut in zip(self.space.units, choices.cuts, strict=True):
            key = (search.table.signatures[unit.index], cut, round(times[unit.index].seconds, 12))
            groups.setdefault(key, []).append(unit.index)
        return tuple(
            [
                CutChoice(
                    self.space.units[indices[0]],
                    len(indices),
                    cut_text(self.space.units[indices[0]], choices.cuts[indices[0]]),
                    tuple(map(str, self._states(indices[0]))),
                    times[indices[0]].seconds,
                    times[indices[0]].received,
                    reason(search.table, indices[0], choices.cuts[indices[0]]),
                )
                for indices in groups.values()
            ]
        )

    def _states(self, index: int) -> tuple[Any, ...]:
        return self.plan.computed_states(self.space.units[index].outputs[0])

    def alternatives(self, name: str) -> tuple[CutAlternative, ...]:
        """Returns the other cuts of a value, with the time of the best plan that has them on the
        same mesh: the other values are cut anew."""
        index = self.space.unit_named(name).index
        return tuple(sorted(self._alternatives(index), key=lambda a: a.seconds))

    def _alternatives(self, index: int) -> Iterator[CutAlternative]:
        choices = self.best.choices
        base = self.space.layout_search(choices.mesh, choices.stages, choices.micro_batches)
        same = [k for k, s in enumerate(base.table.signatures) if s == base.table.signatures[index]]
        by_kind: dict[tuple[Any, ...], list[UnitCut]] = {}
        for cut in base.table.cuts(index):
            by_kind.setdefault(_without_scatter(cut), []).append(cut)
        for kind, cuts in by_kind.items():
            if kind == _without_scatter(choices.cuts[index]):
                continue
            pinned = {**base.pinned, **dict.fromkeys(same, tuple(cuts))}
            solved = attrs.evolve(base, pinned=pinned).solve()
            other = attrs.evolve(choices, cuts=solved)
            cost = simulate(base.table, other, self.space.model, self.space.weights)
            text = cut_text(self.space.units[index], cuts[0])
            yield CutAlternative(text, cost.seconds, self.space.fits(cost))

    def candidate_table(self) -> Table:
        """Returns a table of the meshes and pipelines, the fastest first."""
        table: Table = tables.Table(title=f"plans for {self.best.choices.size} workers")
        for heading in ("mesh", "stages", "micro-batches"):
            table.add_column(heading)
        for heading in ("seconds", "compute", "transfer", "bytes sent", "peak bytes"):
            table.add_column(heading, justify="right")
        table.add_column("")
        for candidate in sorted(self.candidates, key=lambda c: (not c.feasible, c.cost.seconds)):
            cost, choices = candidate.cost, candidate.choices
            note = "chosen" if candidate is self.best else ""
            table.add_row(
                " x ".join(map(str, choices.mesh.shape)),
                str(choices.stage_count),
                str(choices.micro_batches),
                *[f"{t:.3g}" for t in (cost.seconds, cost.compute, cost.transfer)],
                f"{cost.bytes_sent:,}",
                f"{cost.memory:,}",
                note if candidate.feasible else "exceeds the memory",
            )
        return table

    def choice_table(self) -> Table:
        """Returns a table of the cut of each value, with the reason and the next best cuts."""
        table: Table = tables.Table(title=str(self.plan))
        for heading in ("value", "op", "count", "cut", "state"):
            table.add_column(heading)
        for heading in ("seconds", "received"):
            table.add_column(heading, justify="right")
        table.add_column("why")
        table.add_column("best plan with another cut")
        decisions = self._decisions()
        for choice in self.choices:
            index = choice.unit.index
            others = self._alternatives(index) if index in decisions else ()
            shown = sorted(others, key=lambda a: a.seconds)[:ALTERNATIVES]
            table.add_row(
                choice.unit.name,
                choice.unit.op,
                str(choice.count),
                choice.cut,
                ", ".join(choice.states),
                f"{choice.seconds:.3g}",
                f"{choice.received:,}",
                choice.reason,
                ", ".join(map(str, shown)),
            )
        return table

    def _decisions(self) -> set[int]:
        """Returns the units of which the table shows alternatives: the reductions of a small
        program, because each alternative is a search."""
        indices = [choice.unit.index for choice in self.choices]
        choices = self.best.choices
        table = self.space.table(choices.mesh, choices.micro_batches)
        if len(table.units) > DECISIONS:
            return set()
        return {i for i in indices if table.options_of(i).loops}

    def data(self) -> dict[str, Any]:
        """Returns the report as JSON data."""
        return {
            "plan": str(self.plan),
            "cost": attrs.asdict(self.cost),
            "candidates": [
                {
                    "mesh": list(c.choices.mesh.shape),
                    "stages": c.choices.stage_count,
                    "micro_batches": c.choices.micro_batches,
                    "cost": attrs.asdict(c.cost),
                    "feasible": c.feasible,
                }
                for c in self.candidates
            ],
            "cuts": [
                {
                    "value": c.unit.name,
                    "op": c.unit.op,
                    "count": c.count,
                    "cut": c.cut,
                    "states": list(c.states),
                    "seconds": c.seconds,
                    "received": c.received,
                    "reason": c.reason,
                }
                for c in self.choices
            ],
        }

    def __str__(self) -> str:
        console = consoles.Console(width=200, record=True, file=_Discard(), color_system=None)
        console.print(self.candidate_table())
        console.print(self.choice_table())
        lines = console.export_text().splitlines()
        return "\n".join([line.rstrip() for line in lines])


class _Discard:
    """A text file that discards what is written."""

    def write(self, text: str) -> int:
        """Discards text."""
        return len(text)

    def flush(self) -> None:
        """Does nothing."""


def _without_scatter(cut: UnitCut) -> tuple[Any, ...]:
    """Returns a key that cuts share which differ only in how partial results combine."""
    return tuple(
        [
            ("loop", part.loop)
            if isinstance(part, ReductionCut)
            else part.axis
            if isinstance(part, AxisCut)
            else None
            for part in cut
        ]
    )
