"""Equality saturation: applies rules to an e-graph until nothing changes or a budget is spent."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from structir.rewriting.egraph.application import Applier, RuleMatch, search
from structir.rewriting.egraph.graph import EGraph
from structir.rewriting.pattern_vars import CallPattern, ItemPattern
from structir.rewriting.rule import Rule

MATCHES = 2000  # of one rule in one iteration
CHECKED = 64  # applications between two looks at the clock


@attrs.frozen
class Budget:
    """Limits of a saturation: terms beyond those of the program, rounds of rules, and seconds.

    A limit of time makes the result depend on the machine.
    """

    nodes: int = 5000
    iterations: int = 8
    seconds: float | None = None


@attrs.define(eq=False)
class Saturation:
    """A run of rules on an e-graph, and what it did."""

    graph: EGraph
    rules: Sequence[Rule]
    budget: Budget = attrs.Factory(Budget)
    iterations: int = 0
    stop: str = ""  # "saturated", or the limit that was reached
    applications: Counter[str] = attrs.Factory(Counter)  # merges by rule
    rejected: Counter[str] = attrs.Factory(Counter)  # replacements with other StructInfos, by rule
    groups: list[tuple[int, ...]] = attrs.Factory(list)  # replacements of parallel calls
    seconds: float = 0.0
    _applier: Applier = attrs.field(init=False)
    _start: float = attrs.field(init=False, default=0.0)
    _limit: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._applier = Applier(self.graph)

    def run(self) -> Saturation:
        """Applies the rules; returns itself."""
        self._start, self._limit = time.perf_counter(), len(self.graph.terms) + self.budget.nodes
        self.graph.rebuild()
        while not self.stop:
            if self.iterations == self.budget.iterations:
                self.stop = "iterations"
                break
            self.iterations += 1
            changed = self._iterate()
            self.graph.rebuild()
            if not changed and not self.stop:
                self.stop = "saturated"
        self.rejected.update(self._applier.rejected)
        self.groups = self._applier.groups
        self.seconds = time.perf_counter() - self._start
        return self

    def _iterate(self) -> bool:
        """Searches all rules, then applies the matches; returns whether the e-graph changed."""
        depth = max([pattern_depth(rule.pattern_calls[0]) for rule in self.rules], default=0)
        recent = self.graph.recently_changed(depth)
        matches = [
            (rule, search(self.graph, rule, MATCHES, recent if rule.parallel is None else None))
            for rule in self.rules
        ]
        changed = False
        for rule, rule_matches in matches:
            if self._is_spent():
                break
            changed |= self._apply(rule, rule_matches)
        return changed

    def _apply(self, rule: Rule, rule_matches: list[RuleMatch]) -> bool:
        changed = False
        if rule.parallel is not None:
            for group in _parallel_groups(self.graph, rule, rule_matches):
                changed |= self._apply_group(rule, group)
            return changed
        for number, match in enumerate(rule_matches):
            if number % CHECKED == 0 and self._is_spent():
                break
            if self._applier.apply(match):
                self.applications[rule.name] += 1
                changed = True
        return changed

    def _apply_group(self, rule: Rule, group: list[RuleMatch]) -> bool:
        changed = self._applier.apply_parallel(rule, group)
        if changed:
            self.applications[rule.name] += 1
        return changed

    def _is_spent(self) -> bool:
        if len(self.graph.terms) > self._limit:
            self.stop = "nodes"
        limit = self.budget.seconds
        if limit is not None and time.perf_counter() - self._start > limit:
            self.stop = "seconds"
        return bool(self.stop)


def pattern_depth(pattern: Any) -> int:
    """Returns the levels of calls in a pattern."""
    parts: Iterable[Any]
    if isinstance(pattern, CallPattern):
        parts = pattern.arguments.values()
    elif isinstance(pattern, ItemPattern):
        parts = (pattern.of,)
    elif isinstance(pattern, tuple | list):
        return max(map(pattern_depth, pattern), default=0)
    else:
        return 0
    return 1 + max(map(pattern_depth, parts), default=0)


def _parallel_groups(
    graph: EGraph, rule: Rule, rule_matches: list[RuleMatch]
) -> list[list[RuleMatch]]:
    """Returns the matches that differ only in the parallel operand."""
    assert rule.parallel is not None
    name, groups = rule.parallel.name, defaultdict[tuple[object, ...], list[RuleMatch]](list)
    for each in rule_matches:
        shared = tuple(
            [
                graph.find(value.term) if hasattr(value, "term") else str(value)
                for key, value in each.match.bound.items()
                if key != name
            ]
        )
        groups[shared].append(each)
    return [_with_distinct_operands(graph, name, group) for group in groups.values()]


def _with_distinct_operands(graph: EGraph, name: str, group: list[RuleMatch]) -> list[RuleMatch]:
    by_operand = {graph.find(each.match.bound[name].term): each for each in reversed(group)}
    return list(reversed(by_operand.values()))
