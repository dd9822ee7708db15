"""The shape solver: what is known of sizes and ranks, completed in both directions, and why."""

from structir.lazy import lazy_names

_HOMES = {
    "Solver": "structir.solver.solver",
    "Value": "structir.solver.solver",
    "Origin": "structir.solver.reasons",
    "Conflict": "structir.solver.reasons",
    "read_signature": "structir.solver.signature",
    "infer": "structir.solver.inference",
    "explain": "structir.solver.report",
    "close": "structir.solver.closing",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
