"""Stages that move nothing: views of the same memory under another shape."""

from __future__ import annotations

from math import prod

import attrs

from structir.backend.loops.access import address_of
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.expression import Expression, Load
from structir.backend.loops.stage import Stage
from structir.ir import dims


def as_view(stage: Stage) -> Buffer | None:
    """Returns the result of a stage as a view of its operand, if each element stays at its address.

    A stage that writes at its own axes is left alone: its reads are inlined into others, those of a
    view are not.
    """
    if stage.direct or not is_copy(stage):
        return None
    return attrs.evolve(stage.out, base=stage.body.buffer)  # type: ignore[attr-defined]


def is_copy(stage: Stage) -> bool:
    """Whether a stage copies each element of a buffer to the same address of another."""
    body = stage.body
    if not isinstance(body, Load) or not stage.simple or stage.reduce:
        return False
    if body.buffer.dtype != stage.out.dtype or any(isinstance(e, Expression) for e in body.entries):
        return False
    moved = prod(stage.extents[axis] for axis in stage.parallel)
    if not all(dims.equal(moved, b.elements) for b in (body.buffer, stage.out)):
        return False  # it is only a part
    read = address_of(body.buffer, body.entries, stage.axes)
    written = address_of(stage.out, stage.write, stage.axes)
    return dict(read.coefficients) == dict(written.coefficients) and read.rest == written.rest
