"""Locates the extents in a violated condition: the operand axes that determine them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.dims import Dim
from structir.opdef.axis_packs import Fact
from structir.opdef.index_expr import IndexExtent, leaves
from structir.opdef.notation import SideCondition

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
