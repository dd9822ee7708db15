"""Applies rewrite rules to a function in one forward pass, each value to a fixed point."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any

import attrs

from structir.analysis.lattice import PASS, base_check
from structir.errors import Span
from structir.ir.expr import (
    ATOMS,
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from structir.ir.node import rebuild, replace
from structir.ir.op import Op
from structir.rewriting.application_limit import active_limit
from structir.rewriting.matching import Match, UseDefGraph
from structir.rewriting.pattern_vars import ItemPattern, OpVar, PatternExpr
from structir.rewriting.provenance import Application, Provenance
from structir.rewriting.replacement import replacement_of
from structir.rewriting.rule import Rule

REWRITABLE = frozenset({Call, TupleGetItem})  # values that rules may match
MAX_REWRITES = 1024  # consecutive rewrites of one value
MAX_DEPTH = 16  # nested rewrites of replacements; the next walk continues


@attrs.frozen
class RuleApplication:
    """One application of a rule, for remarks."""

    rule: str
    variable: str
    span: Span | None

    def __str__(self) -> str:
        location = "" if self.span is None else f"  {self.span}"
        return f"{self.rule} at {self.variable}{location}"


def rewrite_function(
    function: Function, rules: Sequence[Rule], provenance: Provenance | None = None
) -> tuple[Function, list[RuleApplication]]:
    """Returns the rewritten function and the rule applications.

    Raises PassError for a rule that matches in its own replacement without end. Consecutive walks
    over a function share one provenance.
    """
    driver = _Driver(function, rules, Provenance() if provenance is None else provenance)
    body = driver.rewrite_sequence(function.body)
    if not driver.applications:
        return function, []
    return replace(function, body=body), driver.applications


class _Driver:
    """One walk over a function: the finished bindings and the values in scope."""

    def __init__(self, function: Function, rules: Sequence[Rule], provenance: Provenance) -> None:
        self.provenance = provenance
        self.origin: Application | None = None  # the application whose replacement is being bound
        self.by_op: dict[Any, list[Rule]] = defaultdict(list)
        for rule in rules:
            self.by_op[_root(rule)].append(rule)
        self.applications: list[RuleApplication] = []
        self.graph = UseDefGraph(function)
        self.block: list[Binding] = []
        self.remaining: deque[Binding] = deque()  # the bindings of the block to visit
        self.users: dict[Any, deque[Binding]] | None = None  # the calls of `remaining`, by operand
        self.later: set[Any] = set()  # the variables of `remaining`
        self.depth = 0  # nesting of replacements
        self.emitted: dict[int, tuple[Expr, Var]] = {}  # parts of replacements
        self.kind: type[Var] = Var
        self.pending: dict[Var, Expr] = {}  # replacements of later parallel calls

    def rewrite_sequence(self, seq: SeqExpr) -> SeqExpr:
        """Rewrites the values of a sequence."""
        blocks = tuple([self.rewrite_block(block) for block in seq.blocks])
        is_unchanged = all(a is b for a, b in zip(blocks, seq.blocks, strict=True))
        return seq if is_unchanged else replace(seq, blocks=blocks)

    def rewrite_block(self, block: BindingBlock) -> BindingBlock:
        outer = self.block, self.kind, self.remaining, self.users
        self.block, self.remaining, self.users = [], deque(block.bindings), None
        self.later.update(binding.var for binding in block.bindings)
        self.kind = DataflowVar if isinstance(block, DataflowBlock) else Var
        while self.remaining:
            binding = self.remaining.popleft()
            self.binding(binding)
            self.later.discard(binding.var)
        bindings, (self.block, self.kind, self.remaining, self.users) = self.block, outer
        for binding in bindings:
            self.graph.dataflow_vars.discard(binding.var)
        if len(bindings) == len(block.bindings) and all(map(is_, bindings, block.bindings)):
            return block
        return replace(block, bindings=tuple(bindings))

    def binding(self, binding: Binding) -> None:
        """Rewrites the value of one binding and appends it to the block."""
        value = binding.value
        if isinstance(binding, MatchCast):
            self.block.append(binding)
        elif type(value) in REWRITABLE:
            self.bind_rewritten(binding, value)
        else:
            inner = self.rewrite_nested(value)
            rewritten = binding if inner is value else replace(binding, value=inner)
            self.block.append(rewritten)
            self.graph.values[binding.var] = inner
        if type(binding.var) is DataflowVar:
            self.graph.dataflow_vars.add(binding.var)

    def rewrite_nested(self, value: Expr) -> Expr:
        """Rewrites the bodies of functions and branches."""
        if isinstance(value, Function):
            body = self.rewrite_sequence(value.body)
            return value if body is value.body else replace(value, body=body)
        if isinstance(value, If):
            sides = [
                self.rewrite_sequence(side) for side in (value.true_branch, value.false_branch)
            ]
            if sides[0] is value.true_branch and sides[1] is value.false_branch:
                return value
            return replace(value, true_branch=sides[0], false_branch=sides[1])
        return value

    def bind_rewritten(self, binding: Binding, value: Expr) -> None:
        """Rewrites a value until no rule matches, and binds it."""
        var = binding.var
        if var in self.pending:
            value = self.to_anf(self.pending.pop(var))
        outer = self.origin
        for _ in range(MAX_REWRITES):
            if type(value) not in REWRITABLE:
                break
            replacement = self.apply_rules(var, value)
            if replacement is None:
                break
            self.origin = self.provenance.of(var)
            value = self.to_anf(replacement)
            self.origin = outer
        else:
            raise self.provenance.divergence_error(var)
        self.provenance.measure(var, value)
        self.block.append(
            binding if value is binding.value else VarBinding(var, value, binding.span)
        )
        self.graph.values[var] = value
        if type(var) is DataflowVar:
            self.graph.dataflow_vars.add(var)

    def apply_rules(self, var: Var, value: Any) -> Expr | None:
        """Returns the replacement by the first matching rule, or None."""
        keys: tuple[Any, ...] = (TupleGetItem,)
        if type(value) is Call:
            keys = (value.op.definition, None) if type(value.op) is Op else ()
        limit = active_limit()
        for key in keys if self.depth <= MAX_DEPTH and not limit.is_reached else ():
            for rule in self.by_op.get(key, ()):
                replacement = self.try_rule(rule, var, value)
                if replacement is not None:
                    span = value.span or var.span
                    application = RuleApplication(rule.name, var.name, span)
                    self.applications.append(application)
                    limit.record(application)
                    self.provenance.record(rule.name, var, value, span)
                    return replacement
        return None

    def try_rule(self, rule: Rule, var: Var, value: Expr) -> Expr | None:
        match = Match(self.graph)
        self.graph.values[var] = value
        if not match.at(rule.pattern_calls[0], var):
            return None
        if rule.parallel is not None:
            return self.rewrite_parallel(rule, var, match)
        replacement = replacement_of(rule, match.bound, match.matched, self.graph)
        return replacement if replacement is not None and fits(var, replacement) else None

    def rewrite_parallel(self, rule: Rule, var: Var, match: Match) -> Expr | None:
        """Rewrites parallel calls together, at the position of the first."""
        assert rule.parallel is not None
        name = rule.parallel.name
        operands = {var: match.bound.pop(name)}
        for later_var in self.parallel_calls(match):
            other_match = Match(self.graph, dict(match.bound))
            if other_match.at(rule.pattern_calls[0], later_var):
                operand = other_match.bound[name]
                if operand not in self.later:
                    operands[later_var] = operand
            del self.graph.values[later_var]
        if len(operands) < 2:
            return None
        match.bound[name] = tuple(operands.values())
        replacements = replacement_of(rule, match.bound, match.matched, self.graph)
        if replacements is None or not all(map(fits, operands, replacements)):
            return None
        first, *later_replacements = replacements
        self.pending |= dict(zip(list(operands)[1:], later_replacements, strict=True))
        return first  # type: ignore[no-any-return]

    def parallel_calls(self, match: Match) -> Iterator[Var]:
        """Yields later calls of the block with a matched value as operand."""
        shared = {value for value in match.bound.values() if isinstance(value, Var)}
        for binding in self.later_users(shared):
            if binding.var not in self.pending:
                self.graph.values[binding.var] = binding.value
                yield binding.var

    def later_users(self, operands: set[Var]) -> list[Binding]:
        """Returns the remaining calls of the block with one of the operands, in order."""
        if self.users is None:
            self.users = defaultdict(deque)
            for binding in self.remaining:
                value = binding.value
                for operand in dict.fromkeys(value.args) if type(value) is Call else ():
                    if isinstance(operand, Var):
                        self.users[operand].append(binding)
        lists = []
        for operand in operands:
            users = self.users[operand]
            while users and users[0].var not in self.later:  # the walk has passed it
                users.popleft()
            lists.append(users)
        if len(lists) == 1:
            return [*lists[0]]
        order = {binding: k for k, binding in enumerate(self.remaining)} if all(lists) else {}
        return sorted({b: None for users in lists for b in users}, key=lambda b: order.get(b, 0))

    def to_anf(self, value: Expr) -> Expr:
        """Returns a value in A-normal form; nested calls are bound first."""
        if isinstance(value, PatternExpr):
            return value.value  # type: ignore[no-any-return]
        return value if type(value) in ATOMS else rebuild(value, self.atom)

    def atom(self, part: Any) -> Any:
        """Returns a part of a value as an atom."""
        if isinstance(part, PatternExpr):
            return part.value
        kind = type(part)
        if not isinstance(part, Expr) or kind in ATOMS or kind is Op:
            return part
        if kind is Tuple:
            return rebuild(part, self.atom)
        if id(part) not in self.emitted:
            self.depth += 1
            var = self.kind("lv", part.struct_info, part.span)
            self.provenance.record_part(self.origin, var)
            self.bind_rewritten(VarBinding(var, part, part.span), self.to_anf(part))
            self.emitted[id(part)] = part, var
            self.depth -= 1
        return self.emitted[id(part)][1]


def _root(rule: Rule) -> Any:
    """Returns the op of the root of a pattern: None for any op, TupleGetItem for a field."""
    pattern = rule.pattern_calls[0]
    if type(pattern) is ItemPattern:
        return TupleGetItem
    return None if type(pattern.callee) is OpVar else pattern.callee


def fits(var: Var, replacement: Expr) -> bool:
    """Returns whether the StructInfo of a replacement is at least as precise as the variable's."""
    info = replacement.struct_info
    return info is not None and base_check(var.struct_info, info) is PASS
