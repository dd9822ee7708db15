"""Explains on the command line why a rewrite rule does not match."""

from __future__ import annotations

import difflib

from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule
from structir.passes.manager.rules import rule_names
from structir.rewriting.mismatch import MatchAttempt, nearest_candidate
from structir.rewriting.rule import RULES


def why_not(name: str, module: IRModule) -> list[str]:
    """Returns the report on one rule, at the nearest candidate in a module."""
    if name not in rule_names():
        close = difflib.get_close_matches(name, RULES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise StructIRError(f"--why-not: unknown rule {name!r}{hint}", code="E0610")
    rule = RULES[name]
    candidates: list[tuple[str, MatchAttempt]] = []
    for function_name, function in module.functions.items():
        if isinstance(function, Function):
            candidate = nearest_candidate(rule, function)
            if candidate is not None:
                candidates.append((function_name, candidate))
    if not candidates:
        return [f"{name}: the program has no calls"]
    function_name, nearest = max(candidates, key=lambda each: each[1].rank)
    verdict = "matches" if nearest.matches else "does not match; the nearest candidate is"
    return [f"{name} {verdict}, in {function_name}:", *str(nearest).splitlines()]
