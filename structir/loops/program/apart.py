"""Stages that are proved to write different elements of one buffer."""

from __future__ import annotations

from structir.ir import dims
from structir.ir.dims import Dim
from structir.loops.program.expression import Expression
from structir.loops.program.stage import Stage


def writes_apart(first: Stage, second: Stage) -> bool:
    """Whether two stages are proved to write different elements: along one axis, one ends before
    the other begins."""
    for one, other in zip(first.write, second.write, strict=True):
        if isinstance(one, Expression) or isinstance(other, Expression):
            return False
        if _ends_before(first, one, second, other) or _ends_before(second, other, first, one):
            return True
    return False


def _ends_before(first: Stage, one: Dim, second: Stage, other: Dim) -> bool:
    last = dims.substitute(one, {a: e - 1 for a, e in first.extents.items()})
    start = dims.substitute(other, dict.fromkeys(second.extents, 0))
    return dims.at_least(start, last + 1) is True
