"""Defaulting (`close=True`): underdetermined parameters get the least shape that their uses allow.

Each default is a trial. A conflict undoes it and the next weaker default is tried. What no bound
determines is searched: fewest axes first, then least sizes. If all trials conflict or the budget is
spent, the parameter stays open. Satisfiable programs stay satisfiable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import attrs

from structir.ir.polynomial import Dim, Poly
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
from structir.solver.domains.ranks import min_rank
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import (
    RAGGED_SYMS,
    Row,
    RowVar,
    Variable,
    row_vars,
    symbol_of,
    variables,
)
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.products import product
from structir.solver.solver import ConstraintSolver, Value

MAX_TRIALS = 400  # per call of `close`
MAX_AXES = 6  # of a row variable
MAX_SIZES = 12  # values of one size, from its lower bound on


class Trial(Protocol):
    """Solves, and undoes assertions that conflict."""

    def snapshot(self) -> Any:
        """Starts a backtracking point."""

    def restore(self, snapshot: Any) -> None:
        """Undoes every assertion since the snapshot."""

    def solve(self) -> None:
        """Solves; raises Conflict if the assertions are unsatisfiable."""


@attrs.frozen
class _SolverTrial:
    solver: ConstraintSolver

    def snapshot(self) -> int:
        return self.solver.push()

    def restore(self, snapshot: int) -> None:
        self.solver.pop(snapshot)

    def solve(self) -> None:
        self.solver.solve()


def close(
    solver: ConstraintSolver,
    leaves: Sequence[Value],
    policy: str = "bound",
    *,
    trial: Trial | None = None,
    keep: Collection[Variable] = (),
    fixed: Collection[Variable] = (),
) -> list[Origin]:
    """Defaults these leaves and returns the choices in order.

    `policy="unit"` gives all remaining sizes their least value, except the variables in `keep`.
    Variables in `fixed` do not get their bounds either. `trial` solves in place of the solver,
    where a program has more constraints than the solver.
    """
    choices = _Choices(
        solver, trial or _SolverTrial(solver), list(leaves), policy, set(keep), set(fixed)
    )
    for leaf in leaves:
        _default_rows(choices, leaf)
    for leaf in leaves:
        _default_sizes(choices, leaf)
    for leaf in leaves:
        _default_products(choices, leaf)
    if not choices.search():
        choices.skip_conflicting()
    return choices.origins


@attrs.define
class _Choices:
    """The choices so far, and the search for the remaining ones."""

    solver: ConstraintSolver
    trial: Trial
    leaves: list[Value]
    policy: str
    keep: set[Variable]
    fixed: set[Variable]
    origins: list[Origin] = attrs.field(factory=list)
    trials: int = 0

    def attempt(self, leaf: Value, constraint: Constraint) -> Any:
        """Asserts a choice; returns its snapshot, or None if it leads to a conflict."""
        text = f"chosen for `{leaf.name}`"
        origin = Origin(f"chosen:{leaf.name}", "chosen", text, None, len(self.origins))
        snapshot = self.trial.snapshot()
        self.trials += 1
        open_before = self._open_kept()
        try:
            self.solver.add(constraint, origin)
            self.trial.solve()
        except Conflict:
            self.trial.restore(snapshot)
            return None
        if self._open_kept() != open_before:  # the choice determines what stays open
            self.trial.restore(snapshot)
            return None
        self.origins.append(origin)
        return (snapshot,)

    def _open_kept(self) -> set[Variable]:
        """Returns the variables in `keep` without a value."""
        return {v for v in self.keep if self.solver.resolve(rows := _row_of(v)) == rows}

    def search(self) -> bool:
        """Chooses all remaining variables; returns whether choices without a conflict exist."""
        following = self._next_open()
        if following is None:
            return True
        leaf, candidates = following
        for constraint in candidates:
            if self.trials >= MAX_TRIALS:
                return False
            count = len(self.origins)
            attempt = self.attempt(leaf, constraint)
            if attempt is None:
                continue
            if self.search():
                return True
            self.trial.restore(attempt[0])
            del self.origins[count:]
        return False

    def skip_conflicting(self) -> None:
        """Chooses the remaining variables one by one; those without a choice stay open."""
        self.trials = 0
        while (following := self._next_open()) is not None:
            leaf, candidates = following
            if not any(
                self.trials < MAX_TRIALS and self.attempt(leaf, c) is not None for c in candidates
            ):
                self.leaves.remove(leaf)

    def _next_open(self) -> tuple[Value, Iterator[Constraint]] | None:
        """Returns the next open variable of a leaf, with its values from the least on."""
        for leaf in self.leaves:
            for variable in row_vars(self.solver.shape(leaf)):
                if variable not in self.keep:
                    return leaf, self._ranks(variable)
        for leaf in self.leaves if self.policy == "unit" else ():
            sizes = [size for size in self.solver.shape(leaf) if type(size) is not RowVar]
            for symbol in [s for size in sizes for s in variables(size)]:  # type: ignore[arg-type]
                if symbol not in RAGGED_SYMS and symbol not in self.keep:
                    return leaf, self._sizes(Poly({(symbol,): 1}, 0))
        return None

    def _ranks(self, variable: RowVar) -> Iterator[Constraint]:
        low = min_rank(self.solver.store, (variable,))
        for rank in range(low, low + MAX_AXES + 1):
            yield RowEq((variable,), tuple([fresh() for _ in range(rank)]))

    def _sizes(self, size: Dim) -> Iterator[Constraint]:
        """Yields the sizes that stay open and broadcast to a size; else numbers, from the least."""
        below = [s for s in _sizes_below(self.solver, size) if set(variables(s)) & self.keep]
        if below:  # a number would restrict these
            yield from [DimEq(size, bound) for bound in below]
            return
        low, high = interval(self.solver.store, size)
        least = max(low or 1, 1)
        for value in range(least, min(least + MAX_SIZES, high or least + MAX_SIZES) + 1):
            yield DimEq(size, value)


def _row_of(variable: Variable) -> Row:
    """Returns the row that consists of one variable."""
    return (variable,) if isinstance(variable, RowVar) else (Poly({(variable,): 1}, 0),)


def _default_rows(choices: _Choices, leaf: Value) -> None:
    """Gives a leaf the rank of the shortest row that it broadcasts to."""
    solver = choices.solver
    for variable in row_vars(solver.shape(leaf)):
        for bound in () if variable in choices.fixed else _rows_above(solver, variable):
            axes: Row = tuple([fresh() for _ in bound])
            if choices.attempt(leaf, RowEq((variable,), axes)) is not None:
                break


def _rows_above(solver: ConstraintSolver, variable: RowVar) -> Iterator[Row]:
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


def _default_sizes(choices: _Choices, leaf: Value) -> None:
    """Gives a leaf's size its upper bound; 1 if that conflicts."""
    solver = choices.solver
    for size in solver.shape(leaf):
        symbol = None if type(size) is RowVar else symbol_of(size)  # type: ignore[arg-type]
        if symbol is None or symbol in choices.fixed:
            continue
        bounds = list(_sizes_above(solver, size, choices.keep))  # type: ignore[arg-type]
        for bound in [*bounds, 1] if bounds else ():
            if solver.resolve((size,)) != (size,):
                break
            if choices.attempt(leaf, DimEq(size, bound)) is not None:  # type: ignore[arg-type]
                break


def _sizes_above(solver: ConstraintSolver, size: Dim, keep: Collection[Variable]) -> Iterator[Dim]:
    """Yields the sizes that a size broadcasts to.

    A join with a size that stays open is none: the choice would restrict that size.
    """
    for constraint in solver.residual:
        match constraint:
            case DimLe(inner, outer) if solver.resolve((inner,)) == (size,):
                yield solver.resolve((outer,))[0]  # type: ignore[misc]
            case DimJoin(outer, inners) if size in (resolved := solver.resolve(inners)):
                others = {v for other in resolved if other != size for v in variables(other)}  # type: ignore[arg-type]
                if others.isdisjoint(keep):
                    yield solver.resolve((outer,))[0]  # type: ignore[misc]


def _sizes_below(solver: ConstraintSolver, size: Dim) -> Iterator[Dim]:
    """Yields the sizes that broadcast to a size."""
    for constraint in solver.residual:
        if isinstance(constraint, DimLe) and solver.resolve((constraint.outer,)) == (size,):
            yield solver.resolve((constraint.inner,))[0]  # type: ignore[misc]


def _default_products(choices: _Choices, leaf: Value) -> None:
    """Makes a row of known product empty if the product is 1, else one axis."""
    solver = choices.solver
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
                or row_variables[0] in choices.fixed
            ):
                continue
            total, known_part = product(solver.store, opposite), product(solver.store, side)
            if type(total) is int and type(known_part) is int and known_part:
                axes: Row = () if total == known_part else (total // known_part,)
                choices.attempt(leaf, RowEq((row_variables[0],), axes))
