"""Refinement policies: what inference may change where the body narrows a function's signature."""

from __future__ import annotations

from structir.ir.expr import Function

REFINE = "refine"  # the attribute of a function with its policy
POLICIES = ("signature", "checks", "nothing")


def policy_of(function: Function) -> str:
    """Returns a function's policy, `signature` by default."""
    return str(function.attrs.get(REFINE, POLICIES[0]))
