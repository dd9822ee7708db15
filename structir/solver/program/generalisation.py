"""Solved functions as schemes, so that one serves many shapes, and loops over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structir.ir.polynomial import Poly
from structir.solver.constraints.constraint import Constraint, Ge, RankLe, RowEq
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.terms import Row
from structir.solver.propagation.arithmetic import fresh
from structir.solver.solver import Solver, Value


def generalise(solver: Solver, params: Sequence[Value], results: Sequence[Value]) -> Scheme:
    """What a solved function says: rows of parameters and results, and what is left open."""
    shapes = [solver.shape(value) for value in (*params, *results)]
    constraints = [
        c.map_terms(lambda d: solver.resolve((d,))[0], solver.resolve) for c in solver.residual
    ]  # type: ignore[arg-type,return-value]
    return Scheme(
        tuple(shapes[: len(params)]),
        tuple(shapes[len(params) :]),
        (*constraints, *_bounds(solver)),
    )


def _bounds(solver: Solver) -> Iterator[Constraint]:
    """What is known of variables beside the residual, as constraints."""
    store = solver.store
    for symbol, low in store.lows.items():
        if symbol not in store.dims:
            yield Ge(Poly({(symbol,): 1}, 0), low)
    for symbol, high in store.highs.items():
        if symbol not in store.dims:
            yield Ge(Poly({(symbol,): -1}, high), 0)
    for variable, low in store.rank_lows.items():
        if variable not in store.row_of:
            yield RankLe((1,) * low, (variable,))
    for variable, high in store.rank_highs.items():
        if variable not in store.row_of:
            yield RankLe((variable,), (1,) * high)


def loop_scheme(cell: Scheme, states: int) -> Scheme:
    """The scheme of a loop: states stay as they are, `x` loses its first axis in each step, and the
    outputs are stacked along it."""
    steps = fresh("steps")
    held = cell.operands[:states]
    sequence: Row = (steps, *cell.operands[states])
    kept = [RowEq(after, before) for after, before in zip(cell.results[:states], held, strict=True)]
    return Scheme(
        (*held, sequence, *cell.operands[states + 1 :]),
        (*held, *[(steps, *row) for row in cell.results[states:]]),
        (*cell.constraints, *kept),
    )
