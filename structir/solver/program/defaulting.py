"""Defaulting (`close=True`): underdetermined parameters get the least shape that their uses allow.

Each default is a trial. A conflict undoes it and the next weaker default is tried; if all conflict,
the parameter stays open. Satisfiable programs stay satisfiable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import (
    Constraint,
    DimEq,
    DimJoin,
    DimLe,
    Prod,
    RowEq,
    RowJoin,
    RowLe,
)
from structir.solver.domains.intervals import interval
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import Row, RowVar, row_vars, symbol_of
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.products import product
from structir.solver.solver import Solver, Value


def close(solver: Solver, leaves: Sequence[Value], policy: str = "bound") -> list[Origin]:
    """Defaults these leaves and returns the choices in order.

    `policy="unit"` gives all remaining sizes their least value.
    """
    chosen: list[Origin] = []
    for leaf in leaves:
        _default_rows(solver, leaf, chosen)
    for leaf in leaves:
        _default_sizes(solver, leaf, chosen)
    for leaf in leaves:
        _default_products(solver, leaf, chosen)
    for leaf in leaves:
        for variable in row_vars(solver.shape(leaf)):
            _try_choice(solver, chosen, leaf, [RowEq((variable,), ())])
    if policy == "unit":
        for leaf in leaves:
            _default_to_minimum(solver, leaf, chosen)
    return chosen


def _try_choice(
    solver: Solver, chosen: list[Origin], leaf: Value, constraints: list[Constraint]
) -> bool:
    """Asserts a choice unless it leads to a conflict; returns whether it was asserted."""
    origin = Origin(f"chosen:{leaf.name}", "chosen", f"chosen for `{leaf.name}`", None, len(chosen))
    mark = solver.push()
    try:
        for constraint in constraints:
            solver.add(constraint, origin)
        solver.solve()
    except Conflict:
        solver.pop(mark)
        return False
    solver.pop(mark)
    for constraint in constraints:
        solver.add(constraint, origin)
    solver.solve()
    chosen.append(origin)
    return True


def _default_rows(solver: Solver, leaf: Value, chosen: list[Origin]) -> None:
    """Gives a leaf the rank of the shortest row that it broadcasts to."""
    for variable in row_vars(solver.shape(leaf)):
        for bound in _rows_above(solver, variable):
            axes: Row = tuple([fresh() for _ in bound])
            if _try_choice(solver, chosen, leaf, [RowEq((variable,), axes)]):
                break


def _rows_above(solver: Solver, variable: RowVar) -> Iterator[Row]:
    """Yields the rows of known rank that a row variable broadcasts to, the shortest first."""
    rows: list[Row] = []
    for constraint in solver.residual:
        match constraint:
            case RowLe(inner, outer):
                bounds = [(inner, outer)]
            case RowJoin(outer, inners):
                bounds = [(inner, outer) for inner in inners]
            case _:
                continue
        for inner, outer in bounds:
            row = solver.resolve(outer)
            if solver.resolve(inner) == (variable,) and not row_vars(row):
                rows.append(row)
    yield from sorted(rows, key=len)


def _default_sizes(solver: Solver, leaf: Value, chosen: list[Origin]) -> None:
    """Gives a leaf's size its upper bound; 1 if that conflicts."""
    for size in solver.shape(leaf):
        if type(size) is RowVar or symbol_of(size) is None:  # type: ignore[arg-type]
            continue
        bounds = list(_sizes_above(solver, size))  # type: ignore[arg-type]
        for bound in [*bounds, 1] if bounds else ():
            if solver.resolve((size,)) != (size,):
                break
            if _try_choice(solver, chosen, leaf, [DimEq(size, bound)]):  # type: ignore[arg-type]
                break


def _sizes_above(solver: Solver, size: Dim) -> Iterator[Dim]:
    for constraint in solver.residual:
        match constraint:
            case DimLe(inner, outer) if solver.resolve((inner,)) == (size,):
                yield solver.resolve((outer,))[0]  # type: ignore[misc]
            case DimJoin(outer, inners) if any(solver.resolve((i,)) == (size,) for i in inners):
                yield solver.resolve((outer,))[0]  # type: ignore[misc]


def _default_products(solver: Solver, leaf: Value, chosen: list[Origin]) -> None:
    """Makes a row of known product empty if the product is 1, else one axis."""
    for constraint in list(solver.residual):
        if not isinstance(constraint, Prod):
            continue
        lhs, rhs = solver.resolve(constraint.left), solver.resolve(constraint.right)
        for side, opposite in ((lhs, rhs), (rhs, lhs)):
            row_variables = row_vars(side)
            if (
                len(row_variables) != 1
                or row_vars(opposite)
                or row_variables[0] not in row_vars(solver.shape(leaf))
            ):
                continue
            total, known_part = product(solver.store, opposite), product(solver.store, side)
            if type(total) is int and type(known_part) is int and known_part:
                axes: Row = () if total == known_part else (total // known_part,)
                _try_choice(solver, chosen, leaf, [RowEq((row_variables[0],), axes)])


def _default_to_minimum(solver: Solver, leaf: Value, chosen: list[Origin]) -> None:
    for size in solver.shape(leaf):
        if type(size) is not RowVar and symbol_of(size) is not None:  # type: ignore[arg-type]
            low, _ = interval(solver.store, size)  # type: ignore[arg-type]
            _try_choice(solver, chosen, leaf, [DimEq(size, max(low or 1, 1))])  # type: ignore[arg-type]
