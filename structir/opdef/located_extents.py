"""Locates the extents in a violated condition: the operand axes that determine them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.dims import Dim
from structir.opdef.axis_packs import Fact
from structir.opdef.index_expr import IndexExtent, IndexVar, leaves
from structir.opdef.notation import SideCondition
from structir.opdef.shape_plan import ShapePlan

Location = tuple[int | None, int | None]  # operand and axis of a dim; None for an attribute


def located_extents(
    condition: SideCondition,
    extents: Mapping[str, Dim],
    origin: Mapping[str, Location],
    dim_text: Callable[[str, Any, Location], str],
) -> tuple[Fact, ...]:
    """Returns the extents in a condition that are sizes of operands, with their axes."""
    sides = (*leaves(condition.left), *leaves(condition.right))
    names = dict.fromkeys(leaf.name for leaf in sides if isinstance(leaf, IndexExtent))
    located = [(name, origin.get(name, (None, None))) for name in names]
    return tuple(
        [
            (dim_text(name, extents[name], location), *location)
            for name, location in located
            if location[0] is not None
        ]
    )


def described(
    condition: SideCondition, plan: ShapePlan, axis_of_operand: Callable[[Location], str]
) -> tuple[str, str | None]:
    """Returns a violated condition as text, and an edit as help.

    A lower bound of a result axis, such as the positions of a window, names that axis and the
    operand axis that it reads.
    """
    results = [
        (axis, entry) for entries in plan.results for axis, entry in enumerate(entries or ())
    ]
    result_axis = next((axis for axis, entry in results if entry.size == condition.left), None)
    if result_axis is None or condition.op != "ge" or type(condition.left) is not IndexExtent:
        return f"`{condition.text}`", None
    text = f"a size of at least {condition.right} for axis {result_axis} of the result"
    for operand, entries in enumerate(plan.operands):
        for axis, entry in enumerate(entries or ()):
            if entry.index is not None and IndexVar(condition.left.name) in leaves(entry.index):
                where = axis_of_operand((operand, axis))
                return text, f"enlarge or pad {where}, or use a smaller window"
    return text, None
