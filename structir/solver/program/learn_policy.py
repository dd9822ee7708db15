"""Learn policies: the effect of a proved fact about a named size on the signature."""

from __future__ import annotations

from structir.ir.expr import Function

LEARN = "learn"  # the attribute of a function with its policy
POLICIES = ("guard", "refine", "strict")


def policy_of(function: Function) -> str:
    """Returns a function's policy: by default `refine` if it is private, else `guard`."""
    default = "refine" if function.attrs.get("private") is True else "guard"
    return str(function.attrs.get(LEARN, default))
