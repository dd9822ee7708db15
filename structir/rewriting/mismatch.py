"""Explains why a rule does not match: clause by clause, at the nearest candidate."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from typing import Any

import attrs

from structir.analysis.purity import is_pure_value
from structir.ir.expr import (
    Call,
    Constant,
    DataflowBlock,
    Expr,
    Function,
    If,
    SeqExpr,
    TupleGetItem,
    Var,
)
from structir.ir.node import ShownAsText
from structir.ir.op import Op
from structir.rewriting.driver import fits
from structir.rewriting.matching import Match, UseDefGraph, unmatched_argument
from structir.rewriting.pattern_vars import (
    AttributeVar,
    CallPattern,
    ItemPattern,
    OpVar,
    ParallelVar,
    PatternVar,
)
from structir.rewriting.replacement import replacement_of
from structir.rewriting.rule import Rule

SHOWN = 100  # characters of a value


@attrs.frozen
class Clause:
    """One comparison of a part of a pattern with a value."""

    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.holds else 'FAIL'}  {self.text}"


@attrs.frozen(repr=False)
class MatchAttempt(ShownAsText):
    """A binding at which a rule was tried, and the clauses up to the first that fails."""

    variable: Var
    value: Expr
    clauses: tuple[Clause, ...]

    @property
    def matches(self) -> bool:
        """Whether the rule applies."""
        return all(clause.holds for clause in self.clauses)

    @property
    def rank(self) -> tuple[bool, int]:
        """A measure of how near the candidate is to a match."""
        return self.matches, sum(clause.holds for clause in self.clauses)

    def __str__(self) -> str:
        span = self.value.span or self.variable.span
        at = "" if span is None else f"  {span}"
        head = f"{self.variable.name} = {_text(self.value)}{at}"
        return "\n".join([head, *[f"  {clause}" for clause in self.clauses]])


def nearest_candidate(rule: Rule, function: Function) -> MatchAttempt | None:
    """Returns the binding of a function at which a rule matches, or nearly does; None if the
    function has no bindings. Of equally near ones, it is the first."""
    candidates = list(_candidates(rule, function.body, UseDefGraph(function)))
    return max(candidates, key=lambda candidate: candidate.rank, default=None)


def _candidates(rule: Rule, seq: SeqExpr, graph: UseDefGraph) -> Iterator[MatchAttempt]:
    for block in seq.blocks:
        for binding in block.bindings:
            var, value = binding.var, binding.value
            graph.values[var] = value
            if isinstance(value, Function):
                yield from _candidates(rule, value.body, graph)
            elif isinstance(value, If):
                for branch in (value.true_branch, value.false_branch):
                    yield from _candidates(rule, branch, graph)
            elif isinstance(value, Call | TupleGetItem):
                yield _candidate(rule, var, value, graph)
            if isinstance(block, DataflowBlock):
                graph.dataflow_vars.add(var)
        for binding in block.bindings:
            graph.dataflow_vars.discard(binding.var)


def _candidate(rule: Rule, var: Var, value: Expr, graph: UseDefGraph) -> MatchAttempt:
    pattern = rule.pattern_calls[0]
    match = _RecordingMatch(graph)
    if match.at(pattern, var):
        match.clauses.append(_guard(rule, var, match))
    return MatchAttempt(var, value, tuple(match.clauses))


@attrs.define(eq=False)
class _RecordingMatch(Match):
    """A match that records each clause, a failing one with its reason."""

    clauses: list[Clause] = attrs.field(factory=list, init=False)
    failed: bool = attrs.field(default=False, init=False)

    def at(self, pattern: Any, value: Any) -> bool:
        before = len(self.clauses)
        name = getattr(pattern, "name", None)
        earlier = self.bound.get(name) if isinstance(name, str) else None
        self.clauses.append(Clause(True, _bound(pattern, value)))
        holds = Match.at(self, pattern, value)
        if not holds and not self.failed:  # the innermost clause that fails
            self.failed = True
            self.clauses[before] = Clause(False, self.reason(pattern, value, earlier))
        elif not holds:
            self.clauses[before] = Clause(True, f"{_text(value)}: {_head(pattern)}")
        return holds

    def reason(self, pattern: Any, value: Any, earlier: Any) -> str:
        """Returns why a pattern does not match a value."""
        definition = self.graph.value(value)
        expected = f"expected {describe(pattern)}, found {_text(definition)}"
        if isinstance(pattern, CallPattern) and isinstance(definition, Call):
            return self.call_reason(pattern, definition) or expected
        if not self.graph.is_in_scope(value):
            return f"{_text(value)} is local to another dataflow block"
        if isinstance(pattern, PatternVar | AttributeVar) and earlier is not None:
            return f"`{pattern.name}` is {_text(earlier)} before, and {_text(value)} here"
        return expected

    def call_reason(self, pattern: CallPattern, call: Call) -> str | None:
        """Returns why a call does not match a pattern whose operands do not decide it."""
        if not isinstance(call.op, Op):
            return f"expected a call of an op, found a call of {_text(call.op)}"
        if not is_pure_value(call):
            return f"{call.op.name} has an effect"
        if isinstance(pattern.callee, OpVar):
            return f"{call.op.name} has {len(call.args)} operands, or operands that are sizes"
        if call.op.definition is not pattern.callee:
            return f"expected a call of {pattern.callee.op.name}, found {_text(call)}"
        name = unmatched_argument(pattern, call)
        if name is None:
            return None
        return f"{call.op.name}: `{name}` is not the default, and the pattern does not mention it"


def _guard(rule: Rule, var: Var, match: Match) -> Clause:
    """Returns the clause of the code after the first yield, and of the StructInfo."""
    if rule.parallel is not None:
        return Clause(True, "parallel calls: at least two with the same other operands are needed")
    replacement, line = _traced_replacement(rule, match)
    if replacement is None:
        return Clause(False, f"the rule ends without a replacement: {line}")
    if not fits(var, replacement):
        return Clause(
            False,
            f"expected a replacement with StructInfo {var.struct_info}, "
            f"found {replacement.struct_info}",
        )
    return Clause(True, f"the replacement is {_text(replacement)}")


def _traced_replacement(rule: Rule, match: Match) -> tuple[Any, str]:
    """Returns the replacement, and the last line of the rule that was run."""
    code = rule.generator.__code__
    lines: list[int] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        replacement = replacement_of(rule, match.bound, match.matched, match.graph)
    finally:
        sys.settrace(outer)
    number = lines[-1] if lines else code.co_firstlineno
    text = linecache.getline(code.co_filename, number).strip()
    return replacement, f"{code.co_filename}:{number}: {text}"


def describe(pattern: Any) -> str:
    """Returns the text of a pattern."""
    if isinstance(pattern, CallPattern):
        name = "any op" if isinstance(pattern.callee, OpVar) else pattern.callee.op.name
        arguments = ", ".join(describe(argument) for argument in pattern.arguments.values())
        return f"{name}({arguments})"
    if isinstance(pattern, ItemPattern):
        return f"{describe(pattern.of)}[{pattern.index!r}]"
    if isinstance(pattern, PatternVar):
        return f"{pattern.name} (a constant)" if pattern.constant else pattern.name
    if isinstance(pattern, AttributeVar | ParallelVar):
        return pattern.name
    if isinstance(pattern, list | tuple):
        return f"({', '.join(map(describe, pattern))})"
    return _text(pattern)


def _bound(pattern: Any, value: Any) -> str:
    if isinstance(pattern, PatternVar | AttributeVar | ParallelVar):
        return f"`{pattern.name}` is {_text(value)}"
    return f"{_text(value)} matches {describe(pattern)}"


def _head(pattern: Any) -> str:
    if isinstance(pattern, CallPattern) and not isinstance(pattern.callee, OpVar):
        return f"is a call of {pattern.callee.op.name}"
    return f"matches {describe(pattern)} in part"


def _text(value: Any) -> str:
    if isinstance(value, Constant) and value.data.size > 1:
        return f"a constant of shape {value.data.shape}"
    text = str(value) if not isinstance(value, Var) else value.name
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
