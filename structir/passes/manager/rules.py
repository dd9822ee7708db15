"""Passes made from rewrites: a single rewrite, or all of a group, repeated until none matches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from structir.errors import StructIRError
from structir.ir.expr import Expr, Function
from structir.ir.module import IRModule
from structir.lazy import lazy_module
from structir.passes.base import Pass, Positive, note
from structir.passes.canonicalise_bindings import canonicalise_bindings
from structir.passes.dead_code_elimination import dead_code_elimination
from structir.rewriting.driver import rewrite_function
from structir.rewriting.op_traits import OPS_BY_TRAIT
from structir.rewriting.provenance import Provenance
from structir.rewriting.rule import RULES, Rule, rules_of

families = lazy_module("structir.ops.rewrites")
ROUNDS = 8


def rule_names() -> list[str]:
    """Returns the names of all rewrites."""
    families.load()
    return list(RULES)


def op_with_trait(trait: str) -> Callable[..., Expr]:
    """Returns the op that has a trait."""
    families.load()
    return OPS_BY_TRAIT[trait]


def group_rules(group: str) -> list[Rule]:
    """Returns the rewrites of a group."""
    families.load()
    return rules_of(group)


def rules_named(rules: Any) -> list[Rule]:
    """Returns rules: those of a sequence, or those whose names or groups a string lists.

    Raises StructIRError for other values.
    """
    families.load()
    if not isinstance(rules, str):
        wrong = [each for each in _items(rules) if not isinstance(each, Rule)]
        if wrong:
            message = f"rules: expected rules declared with @rewrite, found {wrong[0]!r}"
            raise StructIRError(message, code="E0534")
        return list(rules)
    chosen: dict[str, Rule] = {}
    for name in rules.replace(",", " ").split():
        named = [RULES[name]] if name in RULES else rules_of(name)
        if not named:
            close = difflib.get_close_matches(name, [*RULES, *_groups()], 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise StructIRError(f"rules: unknown rule or group {name!r}{hint}", code="E0534")
        chosen |= {rule.name: rule for rule in named}
    return list(chosen.values())


def _items(rules: Any) -> list[Any]:
    return list(rules) if isinstance(rules, list | tuple) else [rules]


def _groups() -> set[str]:
    return {rule.group for rule in RULES.values() if rule.group is not None}


def rule_pass(name: str) -> Pass | None:
    """Returns the pass that applies one rewrite; None if there is none of this name."""
    if name not in rule_names():
        return None
    return _alone(RULES[name])


@cache
def _alone(rule: Rule) -> Pass:
    def run(module: IRModule, *, rounds: Positive = ROUNDS) -> IRModule:
        return run_rules(module, [rule], rounds)

    run.__doc__, run.__module__ = rule.doc, rule.generator.__module__
    return Pass(rule.name, run, tolerance=rule.tolerance)


def run_rules(module: IRModule, rules: Sequence[Rule], rounds: int = ROUNDS) -> IRModule:
    """Applies rewrites, each followed by cleanup, for at most `rounds` rounds.

    Each application is recorded as a remark of the running pass.
    """
    if not rules:
        return module
    provenance = Provenance()
    for _ in range(rounds):
        functions = dict(module.functions)
        for name, function in functions.items():
            if isinstance(function, Function):
                functions[name], firings = rewrite_function(function, rules, provenance)
                for firing in firings:
                    note(f"{name}: {firing}")
        if all(functions[name] is value for name, value in module.functions.items()):
            return module
        module = module.with_functions(functions)
        module = canonicalise_bindings.transform(module)
        module = dead_code_elimination.transform(module)
    note(f"stopped after {rounds} rounds; rewrites may still match")
    return module
