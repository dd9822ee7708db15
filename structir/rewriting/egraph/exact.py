"""Exact extraction of small e-graphs, as an integer linear program."""

from __future__ import annotations

from typing import Any

from structir.lazy import lazy_module
from structir.rewriting.egraph.extraction import Choices, TermCost

np = lazy_module("numpy")
optimize = lazy_module("scipy.optimize")
sparse = lazy_module("scipy.sparse")


def optimal(choices: Choices, cost: TermCost, seconds: float) -> dict[int, int] | None:
    """Returns the selection with the least sum of costs; None if the time is not sufficient.

    One variable per term tells whether it is selected, and one per class its depth, which excludes
    cycles.
    """
    needed = _reachable(choices)
    terms = [term for number in needed for term in choices.terms[number]]
    at = {term: index for index, term in enumerate(terms)}
    depth = {number: len(terms) + index for index, number in enumerate(needed)}
    levels = float(len(needed))
    rows = _Rows(len(terms) + len(needed))
    for root in choices.roots:
        rows.add({at[term]: 1.0 for term in choices.terms[root]}, 1.0)
    for number in needed:
        for term in choices.terms[number]:
            for child in choices.children(term):
                selected = {at[each]: 1.0 for each in choices.terms[child]}
                if child == number:
                    rows.add({at[term]: -1.0}, 0.0)
                    continue
                rows.add({**selected, at[term]: -1.0}, 0.0)
                order = {depth[number]: 1.0, depth[child]: -1.0, at[term]: -levels - 1.0}
                rows.add(order, -levels)
    objective = np.array([cost(term) for term in terms] + [0.0] * len(needed))
    scale = float(objective.max(initial=0.0)) or 1.0
    result = optimize.milp(
        objective / scale,
        constraints=rows.constraint(),
        integrality=np.array([1] * len(terms) + [0] * len(needed)),
        bounds=optimize.Bounds(0, np.array([1.0] * len(terms) + [levels] * len(needed))),
        options={"time_limit": seconds},
    )
    if result.x is None:
        return None
    chosen = [term for term in terms if result.x[at[term]] > 0.5]
    return {choices.graph.find(term): term for term in chosen}


def _reachable(choices: Choices) -> list[int]:
    """Returns the classes that some selection computes."""
    needed = dict.fromkeys(choices.roots)
    todo = list(choices.roots)
    while todo:
        for term in choices.terms[todo.pop()]:
            for child in choices.children(term):
                if child not in needed:
                    needed[child] = None
                    todo.append(child)
    return list(needed)


class _Rows:
    """The rows of a sparse system of inequalities: sums that are at least a bound."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.entries: list[tuple[int, int, float]] = []
        self.bounds: list[float] = []

    def add(self, coefficients: dict[int, float], bound: float) -> None:
        """Adds one inequality."""
        row = len(self.bounds)
        self.entries += [(row, column, value) for column, value in coefficients.items()]
        self.bounds.append(bound)

    def constraint(self) -> Any:
        """Returns the system for the solver."""
        rows, columns, values = (list(each) for each in zip(*self.entries, strict=True))
        shape = (len(self.bounds), self.columns)
        matrix = sparse.csr_matrix((values, (rows, columns)), shape=shape)
        return optimize.LinearConstraint(matrix, np.array(self.bounds), np.inf)
