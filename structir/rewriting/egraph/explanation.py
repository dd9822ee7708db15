"""Explanations: why two terms are equal, as applications of rules that can be replayed.

An equality follows from equations, which rules produce, and from equal operands. Each pair of terms
is explained once, so the length of an explanation is linear in the distinct equalities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, PassError
from structir.ir.expr import Expr, Tuple, Var
from structir.ir.node import ShownAsText
from structir.rewriting.egraph.application import Applier
from structir.rewriting.egraph.graph import EGraph, Reason, RuleEquation
from structir.rewriting.egraph.terms import with_operands
from structir.rewriting.matching import Match
from structir.rewriting.replacement import replacement_of
from structir.rewriting.rule import Rule

MOST_NESTED = 4  # levels of operands in a printed term

Pair = tuple[int, int]
Edge = tuple[int, int, Reason, bool]


@attrs.frozen(eq=False)
class RuleStep:
    """One application of a rule; `forward` from the pattern to the replacement."""

    rule: str
    forward: bool
    before: str
    after: str
    equation: RuleEquation = attrs.field(repr=False)

    def __str__(self) -> str:
        direction = "" if self.forward else " (backward)"
        return f"{self.before} = {self.after}  by {self.rule}{direction}"


@attrs.define(eq=False, repr=False)
class EqualityExplanation(ShownAsText):
    """Why a term equals another one: the applications of rules, each once, in order."""

    graph: EGraph
    start: int
    end: int
    names: Mapping[int, str]  # variables of the program, by term
    lemmas: dict[Pair, list[Edge]] = attrs.field(factory=dict, init=False)  # dependencies first

    def __attrs_post_init__(self) -> None:
        todo = [((self.start, self.end), False)]
        edges: dict[Pair, list[Edge]] = {}
        while todo:
            pair, is_ready = todo.pop()
            if is_ready:
                self.lemmas[pair] = edges[pair]
            elif pair not in edges:
                edges[pair] = list(self.graph.path(*pair))
                todo.append((pair, True))
                todo += [(needed, False) for edge in edges[pair] for needed in self._needed(edge)]

    def _needed(self, edge: Edge) -> Iterator[Pair]:
        """Yields the equalities of operands that an edge follows from."""
        first, last, reason, _ = edge
        if reason is None:
            pairs = zip(
                self.graph.terms[first].children, self.graph.terms[last].children, strict=True
            )
            yield from [pair for pair in pairs if pair[0] != pair[1]]

    @property
    def steps(self) -> list[RuleStep]:
        """The applications of rules, those that others depend on first."""
        steps: dict[RuleEquation, RuleStep] = {}
        for edges in self.lemmas.values():
            for first, last, reason, forward in edges:
                if reason is not None and reason not in steps:
                    before, after = self.text(first), self.text(last)
                    steps[reason] = RuleStep(reason.rule, forward, before, after, reason)
        return list(steps.values())

    @property
    def rules(self) -> list[str]:
        """The names of the rules, each once."""
        return list(dict.fromkeys(step.rule for step in self.steps))

    def proofs(self, rules: Mapping[str, Rule], prove: Callable[[Rule], Any]) -> dict[str, Any]:
        """Returns what a prover finds for each rule of the explanation, by name."""
        return {name: prove(rules[name]) for name in self.rules}

    def text(self, number: int) -> str:
        """Returns a term over the variables of the program."""
        return str(self._expr(number, MOST_NESTED))

    def _expr(self, number: int, depth: int) -> Expr:
        term = self.graph.terms[number]
        name = self.names.get(number)
        if depth < MOST_NESTED and name is not None:
            return Var(name, self.graph.info(number))
        if term.is_atom or term.is_variable:
            return term.value
        if not depth:
            return Var(f"e{number}", self.graph.info(number))
        below = depth if type(term.value) is Tuple else depth - 1
        operands = [self._expr(child, below) for child in term.children]
        return with_operands(term.value, operands, self.graph.info(number))

    def __str__(self) -> str:
        if self.start == self.end:
            return f"{self.text(self.start)} is unchanged"
        lines = [f"{self.text(self.start)} = {self.text(self.end)}, since"]
        return "\n".join([*lines, *[f"  {step}" for step in self.steps]])

    def replay(self, rules: Mapping[str, Rule]) -> int:
        """Applies each rule again, and returns the term that results from the first one.

        Matching is that of the rewrite driver, on terms with fixed operands. Raises PassError for
        an application that gives another term.
        """
        replayed: set[Pair] = set()
        for (start, end), edges in self.lemmas.items():
            current = start
            for edge in edges:
                first, last, reason, forward = edge
                if reason is None:
                    valid = self.graph.terms[first].label == self.graph.terms[last].label
                    valid = valid and all(pair in replayed for pair in self._needed(edge))
                else:
                    sides = (reason.left, reason.right) if forward else (reason.right, reason.left)
                    valid = sides == (first, last) and self._holds(rules[reason.rule], reason)
                if current != first or not valid:
                    raise self._error(edge)
                current = last
            if current != end:
                raise self._error((start, end, None, True))
            replayed.add((start, end))
        return self.end

    def _holds(self, rule: Rule, equation: RuleEquation) -> bool:
        """Returns whether a rule rewrites the left side of an equation to its right side."""
        applier = Applier(self.graph)
        match = Match(applier.view)
        if not match.at(rule.pattern_calls[0], self.graph.variable(equation.left)):
            return False
        bound: dict[str, Any] = match.bound
        if rule.parallel is not None:
            bound = {**bound, rule.parallel.name: equation.bound[rule.parallel.name]}
        value = replacement_of(rule, bound, match.matched, applier.view)
        if equation.index is not None and value is not None:
            value = value[equation.index]
        return value is not None and applier.add(value) == equation.right

    def _error(self, edge: Edge) -> PassError:
        rule = "equal operands" if edge[2] is None else f"rule `{edge[2].rule}`"
        diagnostic = Diagnostic(f"saturate: {rule} does not give the recorded term", code="E0531")
        diagnostic = diagnostic.note(f"before: {self.text(edge[0])}")
        return PassError(
            diagnostic.note(f"after:  {self.text(edge[1])}").hinted(
                "let the rule depend on its arguments only"
            )
        )
