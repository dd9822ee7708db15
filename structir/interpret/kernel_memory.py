"""The functions of the library that kernels call, on memory that is strided_view in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Steps = Sequence[tuple[int, int]]  # how often, and how far, along each axis


def first_outside(memory: Any, start: int, steps: Steps) -> int | None:
    """A place, or a step, that memory from an element on does not have; None if there is all."""
    if any(count <= 0 for count, _ in steps):
        return None
    last = start + sum((count - 1) * step for count, step in steps)
    for at, more in ((start, 0), *[(step, 1) for _, step in steps], (last, 0)):
        if not 0 <= at < memory.size + more:
            return at
    return None


def strided_view(memory: Any, start: int, steps: Steps) -> Any:
    """Memory from an element on, as an array over these steps."""
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
