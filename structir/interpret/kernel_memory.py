"""Library functions that kernels call on strided memory, with bounds checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


Sizes = Mapping[str, int]  # the integers of a call, by name


def _tiled_product(left: Any, right: Any, out: Any, _: Sizes) -> None:
    out[...] = left @ right


def _transpose(out: Any, source: Any, _: Sizes) -> None:
    out[...] = source.T


def _over_windows(combine: Any, identity: float) -> Callable[..., None]:
    """Returns a reduction over windows, whose elements may have weights."""

    def reduce_windows(out: Any, image: Any, *others: Any) -> None:
        *weights, sizes = others
        totals = np.full(out.shape, identity, out.dtype)
        for i in range(sizes["window_rows"]):
            for j in range(sizes["window_columns"]):
                rows = _positions(sizes, "row", "rows", i, sizes["top"])
                columns = _positions(sizes, "column", "columns", j, sizes["left"])
                inside = [
                    np.flatnonzero((at >= 0) & (at < size))
                    for at, size in zip((rows, columns), image.shape, strict=True)
                ]
                values = image[np.ix_(rows[inside[0]], columns[inside[1]])]
                values = values * weights[0][i, j] if weights else values
                totals[np.ix_(*inside)] = combine(totals[np.ix_(*inside)], values)
        out[...] = totals

    return reduce_windows


def _positions(sizes: Sizes, axis: str, count: str, tap: int, before: int) -> Any:
    """Returns the positions in the image of one tap of all windows, along an axis."""
    taps, steps, dilations, starts = [  # arrays of int64 wrap around
        np.array([number])
        for number in (tap, sizes[f"{axis}_step"], sizes[f"{axis}_dilation"], before)
    ]
    return np.arange(sizes[count]) * steps + taps * dilations - starts


ON_MEMORY: dict[str, Callable[..., None]] = {
    "tiled_product": _tiled_product,
    "transpose": _transpose,
    "window_products": _over_windows(np.add, 0.0),
    "window_sums": _over_windows(np.add, 0.0),
    "window_maxima": _over_windows(np.maximum, -np.inf),
    "window_minima": _over_windows(np.minimum, np.inf),
}
