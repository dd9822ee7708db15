"""The shape solver: infers sizes and ranks in both directions, and explains its results."""

from structir.lazy import lazy_names

_HOMES = {
    "Solver": "structir.solver.program.stated_shapes",
    "Origin": "structir.solver.domains.reasons",
    "explain": "structir.solver.program.report",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
