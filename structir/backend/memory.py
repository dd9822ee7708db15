"""Plans memory: lifetimes of buffers, and their offsets in one arena."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.writer import KernelText
from structir.planning import layout

ALIGNMENT = 64


@attrs.frozen(eq=False)
class Lifetime:
    """A buffer in the arena, from the first kernel that uses it to the last."""

    buffer: Buffer
    first: int
    last: int
    element_bytes: int


def lifetimes(kernels: Sequence[KernelText], outside: frozenset[Buffer]) -> list[Lifetime]:
    """Returns the buffers of the arena: all that kernels use except inputs and results."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for step, kernel in enumerate(kernels):
        for buffer in kernel.pointers:
            if buffer not in outside:
                first, _ = spans.get(buffer, (step, step))
                spans[buffer] = (first, step)
    return [
        Lifetime(buffer, first, last, element_bytes(buffer.dtype))
        for buffer, (first, last) in spans.items()
    ]


def arena_layout(spans: Sequence[Lifetime]) -> layout.ArenaLayout:
    """Returns the layout of an arena, for any sizes."""
    return layout.ArenaLayout([(span.first, span.last) for span in spans])


def laid_out(
    arena: layout.ArenaLayout, spans: Sequence[Lifetime], elements: Sequence[int]
) -> tuple[list[int], int]:
    """Returns the offset of each buffer, and the size of the arena, in bytes."""
    sizes = [
        -(-max(count, 1) * span.element_bytes // ALIGNMENT) * ALIGNMENT
        for span, count in zip(spans, elements, strict=True)
    ]
    return arena.assign(sizes)
