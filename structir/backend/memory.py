"""Plans memory: lifetimes of buffers, and their offsets in one arena."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from structir.backend.cpu.size_interpreter import offset_assigner
from structir.backend.loops.buffer import Buffer, element_bytes
from structir.backend.loops.kernel_text import KernelText
from structir.backend.sizes import integers
from structir.planning import layout

ALIGNMENT = 64
NO_OFFSETS = np.zeros(0, np.int64)


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


class ArenaLayout:
    """Lays out an arena for the sizes of many calls: later ones in compiled code."""

    def __init__(self, spans: Sequence[Lifetime]) -> None:
        self.spans = spans
        self._count = len(spans)
        self._uses = 0
        self._lock = threading.Lock()
        words = [word for s in spans for word in (s.first, s.last, s.element_bytes)]
        self.lifetimes = np.array([*words, 0], np.int64)
        self._memory = np.zeros(5 * self._count + 3, np.int64)
        self._addresses = int(self.lifetimes.ctypes.data), int(self._memory.ctypes.data)

    def assign(self, elements: Sequence[int]) -> tuple[Any, int]:
        """Returns the offset of each buffer as an array, and the size of the arena, in bytes."""
        if self._count == 0:
            return NO_OFFSETS, 0
        self._uses += 1
        if self._uses == 1 or self._count > layout.MOST_COMPARED:
            return self._assign(elements)
        words, memory = self._addresses
        end = 2 * self._count
        with self._lock:
            try:
                self._memory[: self._count] = elements
            except OverflowError:
                return self._assign(elements)
            if offset_assigner()(words, self._count, memory):
                return self._assign(elements)
            return self._memory[self._count : end].copy(), int(self._memory[end])

    def _assign(self, elements: Sequence[int]) -> tuple[Any, int]:
        sizes = [
            -(-max(count, 1) * span.element_bytes // ALIGNMENT) * ALIGNMENT
            for span, count in zip(self.spans, elements, strict=True)
        ]
        offsets, size = layout.assign_offsets([(s.first, s.last) for s in self.spans], sizes)
        return integers(offsets), size
