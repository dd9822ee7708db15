"""Runs the generator of a rule for a match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structir.rewriting.guards import ACTIVE_GRAPHS
from structir.rewriting.matching import UseDefGraph
from structir.rewriting.pattern_vars import RECORDER
from structir.rewriting.rule import Rule


def replacement_of(
    rule: Rule, bound: Mapping[str, Any], matched: Mapping[int, Any], graph: UseDefGraph
) -> Any:
    """Returns the second yield of a rule for a match, or None if its guard rejects the match."""
    generator = rule.replacements(bound)
    with RECORDER.recording() as recorded:
        next(generator)
    for part, pattern in zip(recorded, rule.pattern_calls[1], strict=False):
        part.value = matched.get(id(pattern))
    ACTIVE_GRAPHS.append(graph)
    try:
        return next(generator, None)
    finally:
        ACTIVE_GRAPHS.pop()
