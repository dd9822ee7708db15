"""The memory plan: which buffers live when, and where they lie in one arena."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.writer import KernelText

ALIGNMENT = 64


@attrs.frozen(eq=False)
class Lifetime:
    """A buffer in the arena, from the first kernel that touches it to the last."""

    buffer: Buffer
    first: int
    last: int
    element_bytes: int


def lifetimes(kernels: Sequence[KernelText], outside: frozenset[Buffer]) -> list[Lifetime]:
    """What must lie in the arena: all that kernels touch and the outside does not bring."""
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


def laid_out(spans: Sequence[Lifetime], elements: Sequence[int]) -> tuple[list[int], int]:
    """The offset of each buffer, and the size of the arena, in bytes.

    Largest first, each in the lowest gap among those alive at the same time.
    """
    sizes = [
        -(-max(count, 1) * span.element_bytes // ALIGNMENT) * ALIGNMENT
        for span, count in zip(spans, elements, strict=True)
    ]
    offsets = [0] * len(spans)
    placed: list[tuple[int, int, Lifetime]] = []
    for i in sorted(range(len(spans)), key=lambda i: -sizes[i]):
        span, offset = spans[i], 0
        for start, end, other in sorted(placed, key=lambda p: p[0]):
            if other.last < span.first or span.last < other.first:
                continue
            if offset + sizes[i] <= start:
                break
            offset = max(offset, end)
        offsets[i] = offset
        placed.append((offset, offset + sizes[i], span))
    return offsets, max((end for _, end, _ in placed), default=0)
