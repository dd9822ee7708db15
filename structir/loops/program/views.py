"""Stages that move nothing: views of the same memory under another shape."""

from __future__ import annotations

from math import prod

import attrs

from structir.ir import dims
from structir.loops.program.access import address_of
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Expression, Load
from structir.loops.program.stage import Stage


def as_view(stage: Stage) -> Buffer | None:
    """Returns the result of a stage as a view of its operand, if each element stays at its address.

    A stage that writes at its own axes is left alone: its reads are inlined into others, those of a
    view are not.
    """
    body = stage.body
    if not isinstance(body, Load) or not stage.simple or stage.direct or stage.reduce:
        return None
    if body.buffer.dtype != stage.out.dtype or any(isinstance(e, Expression) for e in body.entries):
        return None
    moved = prod(stage.extents[axis] for axis in stage.parallel)
    if not all(dims.equal(moved, b.elements) for b in (body.buffer, stage.out)):
        return None  # it is only a part
    read = address_of(body.buffer, body.entries, stage.axes)
    written = address_of(stage.out, stage.write, stage.axes)
    same = dict(read.coefficients) == dict(written.coefficients) and read.rest == written.rest
    return attrs.evolve(stage.out, base=body.buffer) if same else None
