"""The shape solver: infers sizes and ranks in both directions, and explains its results."""

from structir.lazy import lazy_names

_HOMES = {
    "Solver": "structir.solver.solver",
    "Value": "structir.solver.solver",
    "Origin": "structir.solver.domains.reasons",
    "Conflict": "structir.solver.domains.reasons",
    "read_signature": "structir.solver.constraints.signature",
    "infer": "structir.solver.program.inference",
    "explain": "structir.solver.program.report",
    "close": "structir.solver.program.defaulting",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
