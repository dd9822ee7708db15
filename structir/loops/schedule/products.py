"""Statements that add products to a total."""

from __future__ import annotations

from typing import Any

from structir.ir.kernel import Apply, Assign, Element, Local, assigned_value
from structir.loops.schedule.accesses import is_same


def added_factors(step: Assign, total: Local | Element) -> tuple[Element, Element] | None:
    """Returns the factors of the product that a statement adds to a total."""
    value = assigned_value(step)
    if not is_same_place(step.target, total) or not isinstance(value, Apply):
        return None
    if value.fn not in ("add", "add_to") or len(value.args) != 2:
        return None
    others = [arg for arg in value.args if not is_same_place(arg, total)]
    match others:
        case [Apply("mul", (Element() as one, Element() as other))]:
            return one, other
    return None


def is_same_place(first: Any, second: Any) -> bool:
    """Whether two expressions are the same scalar or the same element."""
    return first is second or (isinstance(first, Element) and is_same(first, second))
