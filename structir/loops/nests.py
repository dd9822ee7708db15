"""Shapes of loop nests that primitives expect."""

from __future__ import annotations

from structir.ir.kernel import For
from structir.loops.refusal import refusal


def only_loop_in(outer: For) -> For:
    """Returns the loop that is the whole body of another; raises ScheduleError if none is."""
    if len(outer.body) == 1 and isinstance(outer.body[0], For):
        return outer.body[0]
    name = outer.variable.name
    message = f"expected one loop as the body of `{name}`, found {len(outer.body)} statements"
    if len(outer.body) == 1:
        message = f"expected a loop as the body of `{name}`, found a statement"
    help = f"separate the statements first: `fission({name!r}, 1)`"
    raise refusal("E1117", message, outer, *outer.body[:1], help=help)
