"""Extraction: selects one term of each class, so that the selected DAG is cheap.

A selection computes every shared term once. The greedy extraction takes for each class the term
with the cheapest DAG below it; `improved` then exchanges single terms while the cost of the whole
selection decreases, which the costs of single terms only approximate.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from structir.rewriting.egraph.graph import EGraph

TermCost = Callable[[int], float]
Total = Callable[[dict[int, int]], float]  # the cost of a selection; infinite if it is cyclic
DAG_CLASSES = 1000  # for more classes, costs count a shared term once per use
MOST_TRIALS = 400  # selections whose whole cost is computed
MOST_COSTED = 60_000  # classes in all of these selections
INFINITE = float("inf")


@attrs.frozen(eq=False)
class Choices:
    """The terms of each class, and the classes that must be computed."""

    graph: EGraph
    roots: tuple[int, ...]
    terms: Mapping[int, tuple[int, ...]]  # by class

    def children(self, term: int) -> list[int]:
        """Returns the classes of the operands of a term, each once."""
        children = map(self.graph.find, self.graph.terms[term].children)
        return list(dict.fromkeys(children))


def choices_of(graph: EGraph, roots: Iterable[int], fixed: Mapping[int, int]) -> Choices:
    """Returns the choices in an e-graph; a class with a fixed term has no other."""
    only = {graph.find(number): term for number, term in fixed.items()}
    terms = {
        number: (only[number],) if number in only else tuple(known.members)
        for number, known in graph.classes.items()
    }
    return Choices(graph, tuple(dict.fromkeys(map(graph.find, roots))), terms)


def reached(choices: Choices, selection: Mapping[int, int]) -> list[int] | None:
    """Returns the classes that a selection computes, operands first; None if it is cyclic."""
    order: list[int] = []
    state: dict[int, bool] = {}  # whether a class is complete
    for root in choices.roots:
        todo = [(root, False)]
        while todo:
            number, is_ready = todo.pop()
            if is_ready:
                state[number] = True
                order.append(number)
            elif number in state:
                if not state[number]:
                    return None
            else:
                state[number] = False
                todo.append((number, True))
                if number not in selection:
                    return None
                todo += [
                    (c, False) for c in choices.children(selection[number]) if not state.get(c)
                ]
    return order


def greedy(choices: Choices, cost: TermCost) -> dict[int, int]:
    """Returns the selection in which each class has the term with the cheapest DAG below it."""
    if len(choices.terms) > DAG_CLASSES:
        return _cheapest_trees(choices, cost)
    below: dict[int, dict[int, float]] = {}  # the costs of the classes that a class computes
    totals: dict[int, float] = {}
    selection: dict[int, int] = {}
    users = _users(choices)
    queue = [term for terms in choices.terms.values() for term in terms]
    pending = set(queue)
    while queue:
        following: list[int] = []
        for term in queue:
            pending.discard(term)
            number = choices.graph.find(term)
            dag = _dag_below(choices, term, number, below, cost)
            if dag is None:
                continue
            total = sum(dag.values())
            if total < totals.get(number, INFINITE) - 1e-15:
                below[number], totals[number], selection[number] = dag, total, term
                for user in users.get(number, ()):
                    if user not in pending:
                        pending.add(user)
                        following.append(user)
        queue = following
    return selection


def _dag_below(
    choices: Choices,
    term: int,
    number: int,
    below: Mapping[int, dict[int, float]],
    cost: TermCost,
) -> dict[int, float] | None:
    """Returns the costs of the classes that a term computes; None if one is unknown or itself."""
    dag: dict[int, float] = {}
    for child in choices.children(term):
        known = below.get(child)
        if known is None or number in known:
            return None
        dag |= known
    dag[number] = cost(term)
    return dag


def _users(choices: Choices) -> dict[int, list[int]]:
    users: dict[int, list[int]] = {}
    for terms in choices.terms.values():
        for term in terms:
            for child in choices.children(term):
                users.setdefault(child, []).append(term)
    return users


def _cheapest_trees(choices: Choices, cost: TermCost) -> dict[int, int]:
    """Returns the selection with the cheapest trees, in time linear in the terms (Knuth, 1977)."""
    users = _users(choices)
    missing = {
        term: len(choices.children(term)) for terms in choices.terms.values() for term in terms
    }
    heap = [(cost(term), term) for term, count in missing.items() if not count]
    heapq.heapify(heap)
    totals: dict[int, float] = {}
    selection: dict[int, int] = {}
    while heap:
        total, term = heapq.heappop(heap)
        number = choices.graph.find(term)
        if number in selection:
            continue
        totals[number], selection[number] = total, term
        for user in users.get(number, ()):
            missing[user] -= 1
            if not missing[user]:
                below = sum(totals[child] for child in choices.children(user))
                heapq.heappush(heap, (cost(user) + below, user))
    return selection


@attrs.define(eq=False)
class Search:
    """A local search for a selection of lower total cost."""

    choices: Choices
    total: Total
    groups: Sequence[tuple[int, ...]] = ()  # terms that are selected together
    trials: int = MOST_TRIALS

    def improved(
        self, selection: dict[int, int], fallback: Mapping[int, int]
    ) -> tuple[dict[int, int], float]:
        """Returns a selection of at most this cost, and its cost.

        Classes that an exchange adds take their term of `fallback`.
        """
        best, best_cost = selection, self.total(selection)
        size = len(reached(self.choices, selection) or ()) or 1
        self.trials = min(self.trials, MOST_COSTED // size)
        is_better = True
        while is_better and self.trials > 0:
            is_better = False
            for candidate in self._neighbours(best, fallback):
                if self.trials <= 0:
                    break
                self.trials -= 1
                cost = self.total(candidate)
                if cost < best_cost * (1 - 1e-9):
                    best, best_cost, is_better = candidate, cost, True
                    break
        return best, best_cost

    def _neighbours(
        self, selection: dict[int, int], fallback: Mapping[int, int]
    ) -> Iterable[dict[int, int]]:
        order = reached(self.choices, selection) or []
        used = {number: selection[number] for number in order}
        for group in self.groups:
            exchange = {self.choices.graph.find(term): term for term in group}
            if any(used.get(number, term) != term for number, term in exchange.items()):
                yield {**fallback, **used, **exchange}
        for number in reversed(order):
            for term in self.choices.terms[number]:
                if term != used[number]:
                    yield {**fallback, **used, number: term}
