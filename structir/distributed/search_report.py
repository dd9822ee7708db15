"""The result of a search: the chosen plan, the candidates, and the reasons as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from structir.distributed.mesh_plan import MeshCuts, MeshPlan
from structir.distributed.mesh_program import MeshProgram
from structir.distributed.simulation import SimulatedCost

if TYPE_CHECKING:
    from structir.distributed.cut_search import SearchSpace


@attrs.frozen(eq=False)
class SearchCandidate:
    """One plan of a search, with its simulated cost."""

    choices: MeshCuts
    cost: SimulatedCost
    feasible: bool  # whether its memory is within the bound


@attrs.frozen(eq=False)
class SearchReport:
    """The result of a search."""

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
