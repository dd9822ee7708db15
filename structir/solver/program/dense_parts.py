"""Takes parts of concatenations that nothing requires to be ragged for dense ones."""

from __future__ import annotations

from structir.solver.domains.reasons import Conflict
from structir.solver.program.constraint_generation import ConstraintGenerator


def solve_dense_parts(generator: ConstraintGenerator) -> None:
    """Takes open parts of concatenations for sizes, unless one must be ragged."""
    snapshot, may_be_ragged = generator.snapshot(), generator.solver.store.may_be_ragged
    try:
        if generator.solver.assume_dense_sums():
            generator.solve()
    except Conflict:
        generator.restore(snapshot)
    generator.solver.store.may_be_ragged = may_be_ragged
