"""Copies of the results of a region that are operands, constants or other results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.ir import dims
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import load
from structir.loops.program.stage import Stage

Lowered = Any  # a Buffer, or a tuple of lowered values


def with_copies(outputs: Sequence[Lowered], stages: list[Stage]) -> tuple[Lowered, ...]:
    """Returns outputs of which each buffer is computed by the region, and occurs once; adds the
    stages that copy the others."""
    seen: set[Buffer] = set()

    def owned(value: Lowered) -> Lowered:
        if isinstance(value, tuple):
            return tuple([owned(field) for field in value])
        if value.root.origin == "value" and value.root not in seen:
            seen.add(value.root)
            return value
        copy = Buffer(value.shape, value.dtype)
        entries = tuple([dims.sym("axis") for _ in value.shape])
        axes: Any = tuple(map(dims.as_sym, entries))
        extents = dict(zip(axes, value.shape, strict=True))
        stages.append(Stage(copy, axes, (), extents, load(value, entries), entries))
        return copy

    return tuple(map(owned, outputs))
