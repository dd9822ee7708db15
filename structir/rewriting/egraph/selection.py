"""Selects the cheapest terms of a saturated block, and returns the block that computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from structir.ir.expr import Binding, BindingBlock, Call, Constant, Expr, Tuple, Var, VarBinding
from structir.rewriting.egraph.block import BlockGraph
from structir.rewriting.egraph.exact import optimal
from structir.rewriting.egraph.extraction import (
    Choices,
    Search,
    choices_of,
    greedy,
    reached,
)
from structir.rewriting.egraph.terms import with_operands

# the costs of bindings at several sizes, or at the first ones, of which the first decides
BlockCosts = Callable[[Sequence[Binding], Sequence[Var], int | None], Sequence[float]]
TermCosts = Callable[[Expr], float]
WORSE = 1 + 1e-9  # by which a cost may grow
EXACT_TERMS = 600  # terms of a program that is solved exactly
EXACT_SECONDS = 20.0


@attrs.frozen(eq=False)
class BlockCandidate:
    """A selection with its costs at several sizes."""

    selection: dict[int, int]
    costs: tuple[float, ...]
    block: BindingBlock


class Selector:
    """The alternatives of one saturated block."""

    def __init__(
        self,
        source: BlockGraph,
        block_costs: BlockCosts,
        term_costs: TermCosts,
        groups: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.source, self.graph = source, source.graph
        self.block_costs, self.term_costs, self.groups = block_costs, term_costs, groups
        fixed: dict[int, int] = {}
        for number in source.stays:
            fixed.setdefault(self.graph.find(number), number)
        self.choices: Choices = choices_of(self.graph, source.roots, fixed)
        self._costs: dict[int, float] = {}
        self._calls: dict[Any, Expr] = {}
        self._static = self._static_classes()

    # Costs

    def _static_classes(self) -> set[int]:
        """Returns the classes that are computed from constants alone."""
        static = {
            number
            for number, terms in self.choices.terms.items()
            if any(type(self.graph.terms[term].value) is Constant for term in terms)
        }
        changed = True
        while changed:
            changed = False
            for number, terms in self.choices.terms.items():
                if number not in static and any(self._is_static(term, static) for term in terms):
                    static.add(number)
                    changed = True
        return static

    def _is_static(self, number: int, static: set[int]) -> bool:
        term = self.graph.terms[number]
        operands = [child for child in term.children if not self.graph.terms[child].is_atom]
        constants = [c for c in term.children if type(self.graph.terms[c].value) is Constant]
        is_value = not term.is_variable and bool(operands or constants)
        return is_value and all(self.graph.find(child) in static for child in operands)

    def term_cost(self, number: int) -> float:
        """Returns the cost of a term alone; it is small for values known at compile time."""
        if number not in self._costs:
            term = self.graph.terms[number]
            cost = 1e-12
            if type(term.value) is Call and not self._is_static(number, self._static):
                cost += self.term_costs(self.graph.value(number))
            self._costs[number] = cost
        return self._costs[number]

    def bindings(self, selection: Mapping[int, int]) -> tuple[list[Binding], list[Var]] | None:
        """Returns the selected terms as bindings, and the variables used after the block."""
        order = reached(self.choices, selection)
        if order is None:
            return None
        values: dict[int, Expr] = {}
        bindings: list[Binding] = []
        for number in order:
            chosen = selection[number]
            term = self.graph.terms[chosen]
            if term.is_atom or term.is_variable:
                values[number] = term.value
                if chosen in self.source.stays:
                    bindings.append(self.source.stays[chosen])
                continue
            operands = [values[self.graph.find(child)] for child in term.children]
            value = self._value(chosen, operands)
            if type(value) is Tuple:
                values[number] = value
            else:
                var = values[number] = self.graph.variable(number)
                bindings.append(VarBinding(var, value))
        live = [values[self.graph.find(self.source.numbers[var])] for var in self.source.live]
        return bindings, live  # type: ignore[return-value]

    def _value(self, number: int, operands: list[Expr]) -> Expr:
        key = (number, *map(id, operands))
        known = self._calls.get(key)
        if known is None:
            info = self.graph.info(number)
            # the operands stay alive with the value, so that their ids stay unique
            known = self._calls[key] = with_operands(self.graph.terms[number].value, operands, info)
        return known

    def cost(self, selection: Mapping[int, int]) -> float:
        """Returns the cost of a selection at the sizes that decide."""
        computed = self.bindings(selection)
        return float("inf") if computed is None else self.block_costs(*computed, 1)[0]

    # Selections

    def selections(self, exact: bool) -> Iterator[dict[int, int]]:
        """Yields selections; each is followed by those that a local search finds from it."""
        own = self.source.original()
        for number, terms in self.choices.terms.items():
            if own.get(number) not in terms:
                own[number] = terms[0]
        cheapest = {**own, **greedy(self.choices, self.term_cost)}
        starts = [own, cheapest]
        if exact and len(self.graph.members) <= EXACT_TERMS:
            best = optimal(self.choices, self.term_cost, EXACT_SECONDS)
            starts += [] if best is None else [{**cheapest, **best}]
        for start in starts:
            if reached(self.choices, start) is not None:
                yield start
                search = Search(self.choices, self.cost, self.groups)
                yield search.improved(start, cheapest)[0]

    def candidates(self, exact: bool = False) -> list[BlockCandidate]:
        """Returns blocks that compute the same, the cheapest first."""
        candidates, seen = list[BlockCandidate](), set[Any]()
        for selection in self.selections(exact):
            order = reached(self.choices, selection)
            used = {number: selection[number] for number in order or ()}
            key = frozenset(used.items())
            if order is not None and key not in seen:
                seen.add(key)
                block = self.source.block_of(used)
                if block is not None:
                    costs = tuple(self.block_costs(block.bindings, self.source.live, None))
                    candidates.append(BlockCandidate(used, costs, block))
        return sorted(candidates, key=lambda each: each.costs[0])


def not_worse(costs: Iterable[float], limits: Iterable[float]) -> bool:
    """Returns whether costs exceed the limits nowhere."""
    return all(cost <= limit * WORSE for cost, limit in zip(costs, limits, strict=True))
