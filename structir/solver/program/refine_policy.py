"""Refinement policies: what inference may change where the body narrows a function's signature."""

from __future__ import annotations

from structir.ir.expr import Function

REFINE = "refine"  # the attribute of a function with its policy
POLICIES = ("signature", "checks", "nothing")


def policy_of(function: Function) -> str:
    """Returns a function's policy: by default `signature` if it is private, else `checks`."""
    default = "signature" if function.attrs.get("private") is True else "checks"
    return str(function.attrs.get(REFINE, default))
