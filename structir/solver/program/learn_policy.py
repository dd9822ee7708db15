"""What learning about a named size does to a signature: the policies, and a function's own."""

from __future__ import annotations

from structir.ir.expr import Function

LEARN = "learn"  # the attribute of a function that holds its policy
POLICIES = ("guard", "refine", "strict")


def policy_of(function: Function) -> str:
    """A function's policy; what nobody calls from outside may be rewritten."""
    default = "refine" if function.attrs.get("private") is True else "guard"
    return str(function.attrs.get(LEARN, default))
