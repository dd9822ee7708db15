"""Local arrays that hold the block of an array that a loop accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import Element, For, LibraryCall, Scalar, Scratch
from structir.loops.schedule.accesses import Access
from structir.loops.schedule.edits import calculate, substitute
from structir.loops.schedule.refusal import refusal


def require_elements(array: Var, accesses: Sequence[Access], loop: For, action: str) -> None:
    """Raises ScheduleError unless a loop accesses an array, and only by an index for each axis."""
    if not accesses:
        message = f"expected `{array.name}` in `{loop.variable.name}`, found no access of it"
        raise refusal("E1116", message, loop, help="name a loop that contains its accesses")
    for access in accesses:
        element = access.mention.element
        whole = element is None or element.flat or not element.indices
        if whole or isinstance(access.statement, LibraryCall | Scratch):
            raise refusal(
                "E1116",
                f"expected accesses `{array.name}[i, j]` of elements",
                ("access", access.statement),
                ("loop", loop),
                help=f"{action} an array that is accessed by an index for each axis",
            )


def with_block(loop: For, array: Var, block: Var, starts: Sequence[Scalar]) -> Any:
    """Returns the loop with accesses of a block, which begins at `starts`, instead of the array."""

    def change(part: Any) -> Any:
        if not isinstance(part, Element) or part.array is not array:
            return None
        positions = [
            calculate("sub", substitute(index, change), start)
            for index, start in zip(part.indices, starts, strict=True)
        ]
        return Element(block, tuple(positions), part.dtype, part.span)

    return substitute(loop, change)
