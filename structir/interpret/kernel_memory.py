"""Library functions that kernels call on strided memory, with bounds checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Steps = Sequence[tuple[int, int]]  # (count, stride in elements) of each axis


def first_outside(memory: Any, start: int, steps: Steps) -> int | None:
    """Returns the first index, or stride, outside of the memory for a strided view; None if all are
    inside."""
    if any(count <= 0 for count, _ in steps):
        return None
    last = start + sum((count - 1) * step for count, step in steps)
    for index, slack in ((start, 0), *[(step, 1) for _, step in steps], (last, 0)):
        if not 0 <= index < memory.size + slack:
            return index
    return None


def strided_view(memory: Any, start: int, steps: Steps) -> Any:
    """Returns a strided view of memory that starts at an element."""
    if any(count <= 0 for count, _ in steps):
        return np.zeros([max(count, 0) for count, _ in steps], memory.dtype)
    counts, strides = zip(*[(n, step * memory.itemsize) for n, step in steps], strict=True)
    return np.lib.stride_tricks.as_strided(memory[start:], counts, strides)


def _tiled_product(left: Any, right: Any, out: Any) -> None:
    out[...] = left @ right


def _transpose(out: Any, source: Any) -> None:
    out[...] = source.T


ON_MEMORY: dict[str, Callable[..., None]] = {
    "tiled_product": _tiled_product,
    "transpose": _transpose,
}
