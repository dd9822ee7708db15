"""Applies rules to the matches of an e-graph, and adds replacements to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from structir.analysis.lattice import PASS, base_check
from structir.analysis.purity import is_pure_value
from structir.ir.expr import ATOMS, Call, Expr, Function, Tuple, TupleGetItem, Var
from structir.ir.op import Op
from structir.rewriting.egraph.ematching import EMatch, PatternInstance, TermOperand, root_matches
from structir.rewriting.egraph.graph import EGraph, RuleEquation
from structir.rewriting.egraph.terms import operands_of
from structir.rewriting.matching import UseDefGraph
from structir.rewriting.pattern_vars import ItemPattern, OpVar, PatternExpr
from structir.rewriting.replacement import replacement_of
from structir.rewriting.rule import Rule


class EGraphView(UseDefGraph):
    """What guards see of an e-graph: each term has one use, since the cost decides about copies."""

    def __init__(self, graph: EGraph) -> None:
        super().__init__(function=None)  # type: ignore[arg-type]
        self.graph = graph

    def value(self, expr: Any) -> Any:
        """Returns the value of a term."""
        number = self.graph.numbers.get(expr) if isinstance(expr, Var) else None
        return expr if number is None else self.graph.value(number)

    def name(self, expr: Any) -> Any:
        """Returns the variable itself."""
        return expr

    def uses(self, var: Var) -> int:
        """Returns one."""
        return 1

    def is_in_scope(self, expr: Any) -> bool:
        """Returns whether an atom is in scope, which all are."""
        return True


@attrs.frozen(eq=False)
class RuleMatch:
    """A match of a rule: the instance of its pattern, and the values of its variables."""

    rule: Rule
    match: EMatch
    instance: PatternInstance

    def key(self, graph: EGraph) -> Any:
        """Returns what distinguishes this match from others."""
        bound = tuple(
            [
                (name, graph.find(v.term))
                for name, v in self.match.bound.items()
                if type(v) is TermOperand
            ]
        )
        return self.rule.name, tuple(self.match.matched.values()), bound


def search(graph: EGraph, rule: Rule, limit: int, among: set[int] | None = None) -> list[RuleMatch]:
    """Returns the matches of a rule at some or all terms, at most `limit`."""
    matches, pattern = list[RuleMatch](), rule.pattern_calls[0]
    for number in _candidates(graph, pattern):
        if among is not None and number not in among:
            continue
        for match, instance in root_matches(graph, pattern, number):
            matches.append(RuleMatch(rule, match, instance))
            if len(matches) >= limit:
                return matches
    return matches


def _candidates(graph: EGraph, pattern: Any) -> Iterator[int]:
    """Yields the terms that may match a pattern, one of those with equal operands."""
    if type(pattern) is not ItemPattern and type(pattern.callee) is not OpVar:
        numbers = graph.by_op.get(pattern.callee, [])
        kept = [number for number in numbers if number in graph.members]
        graph.by_op[pattern.callee] = kept
        yield from tuple(kept)
        return
    is_item = type(pattern) is ItemPattern
    for number in sorted(graph.members):
        value = graph.terms[number].value
        is_call = type(value) is Call and type(value.op) is Op
        if (type(value) is TupleGetItem) if is_item else is_call:
            yield number


class Applier:
    """Applies matches to an e-graph; each match once."""

    def __init__(self, graph: EGraph) -> None:
        self.graph = graph
        self.view = EGraphView(graph)
        self.applied: set[Any] = set()
        self.rejected: dict[str, int] = {}  # replacements with other StructInfos, by rule
        self.groups: list[tuple[int, ...]] = []  # replacements of parallel calls
        self._combined: dict[str, set[int]] = {}  # terms that a rule for parallel calls has added

    def apply(self, rule_match: RuleMatch) -> bool:
        """Applies a rule at a match; returns whether the e-graph has changed."""
        key = rule_match.key(self.graph)
        if key in self.applied:
            return False
        self.applied.add(key)
        left, bound, matched = self.realized(rule_match)
        value = replacement_of(rule_match.rule, bound, matched, self.view)
        right = None if value is None else self.add(value)
        return right is not None and self._merge(rule_match.rule.name, left, right, bound)

    def apply_parallel(self, rule: Rule, rule_matches: list[RuleMatch]) -> bool:
        """Applies a rule to parallel calls at once; returns whether the e-graph has changed."""
        assert rule.parallel is not None
        combined = self._combined.setdefault(rule.name, set())
        rule_matches = [each for each in rule_matches if each.instance.term not in combined]
        key = tuple([each.key(self.graph) for each in rule_matches])
        if len(rule_matches) < 2 or key in self.applied:
            return False
        self.applied.add(key)
        name, realized = rule.parallel.name, [self.realized(each) for each in rule_matches]
        _, bound, matched = realized[0]
        bound = {**bound, name: tuple([each[1][name] for each in realized])}
        values = replacement_of(rule, bound, matched, self.view)
        count = len(self.graph.terms)
        rights = [] if values is None else [self.add(value) for value in values]
        combined.update(range(count, len(self.graph.terms)))
        if not rights or None in rights:
            return False
        self.groups.append(tuple(rights))  # type: ignore[arg-type]
        changes = [
            self._merge(rule.name, left, right, bound, index)  # type: ignore[arg-type]
            for index, ((left, _, _), right) in enumerate(zip(realized, rights, strict=False))
        ]
        return any(changes)

    def _merge(
        self, rule: str, left: int, right: int, bound: dict[str, Any], index: int | None = None
    ) -> bool:
        if base_check(self.graph.info(left), self.graph.info(right)) is not PASS:
            self.rejected[rule] = self.rejected.get(rule, 0) + 1
            return False
        return self.graph.merge(RuleEquation(rule, left, right, bound, index))

    def realized(self, rule_match: RuleMatch) -> tuple[int, dict[str, Any], dict[int, Any]]:
        """Returns the instance of a pattern as a term, and the bound and matched expressions."""
        matched = {key: self.graph.variable(n) for key, n in rule_match.match.matched.items()}
        left = self.instance(rule_match.instance, matched)
        bound = {
            name: self.graph.operand(value.term) if isinstance(value, TermOperand) else value
            for name, value in rule_match.match.bound.items()
        }
        return left, bound, matched

    def instance(self, instance: Any, matched: dict[int, Any]) -> int:
        """Adds the instance of a pattern as a term."""
        if isinstance(instance, int):
            return instance
        children = tuple([self.instance(each, matched) for each in instance.operands])
        number = self.graph.add(self.graph.terms[instance.term].value, children)
        if instance.pattern is not None:
            matched[instance.pattern] = self.graph.variable(number)
        return number

    # Replacements

    def add(self, value: Any) -> int | None:
        """Adds an expression; returns None for one that may have effects."""
        if isinstance(value, PatternExpr):
            value = value.value
        number = self.graph.numbers.get(value) if isinstance(value, Var) else None
        if number is not None:
            return number
        if type(value) in ATOMS:
            return self.graph.add_atom(value)
        if isinstance(value, Function) or not _may_enter(value):
            return None
        children = [self.add(operand) for operand in operands_of(value)]
        if any(child is None for child in children):
            return None
        return self.graph.add(value, tuple(children))  # type: ignore[arg-type]


def _may_enter(value: Expr) -> bool:
    if isinstance(value, Call):
        return type(value.op) is Op and not value.sinfo_args and is_pure_value(value)
    return isinstance(value, Tuple | TupleGetItem)
