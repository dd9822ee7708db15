"""Runs the generator of a rule for a match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Expr
from structir.rewriting.guards import ACTIVE_GRAPHS
from structir.rewriting.matching import UseDefGraph
from structir.rewriting.pattern_vars import RECORDER
from structir.rewriting.rule import Rule, invalid_rule


def replacement_of(
    rule: Rule, bound: Mapping[str, Any], matched: Mapping[int, Any], graph: UseDefGraph
) -> Any:
    """Returns the second yield of a rule for a match, or None if its guard rejects the match.

    Raises DiagnosticError if it is no expression; a rule for parallel calls yields several.
    """
    generator = rule.replacements(bound)
    with RECORDER.recording() as recorded:
        next(generator)
    for part, pattern in zip(recorded, rule.pattern_calls[1], strict=False):
        part.value = matched.get(id(pattern))
    ACTIVE_GRAPHS.append(graph)
    try:
        value = next(generator, None)
    finally:
        ACTIVE_GRAPHS.pop()
    if value is not None and rule.parallel is None and not isinstance(value, Expr):
        raise DiagnosticError(_no_expression(rule, value))
    return value


def _no_expression(rule: Rule, value: Any) -> Diagnostic:
    """Returns the diagnostic of a replacement that is a value of Python."""
    hint = "yield an expression: `yield R.exp(x)`"
    if isinstance(value, bool | int | float):
        hint = f'yield a constant of the dtype of the result: `yield R.const({value}, "float32")`'
    elif isinstance(value, tuple | list):
        hint = f"yield one tuple of the program: `yield R.tuple({', '.join(map(str, value))})`"
    message = f"expected an expression as the replacement, found {value!r}"
    return invalid_rule(rule.generator, message, hint)
