"""Library functions that kernels call on strided memory, with bounds checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from structir.ir.kernel_functions import LIBRARY, PANEL_COLUMNS

MOST = 2**40  # more than any memory has elements
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
    """Returns a strided view of memory that starts at an element.

    The sizes of an empty view are at most `MOST`, since NumPy limits those of empty arrays.
    """
    if any(count <= 0 for count, _ in steps):
        return np.zeros([min(max(count, 0), MOST) for count, _ in steps], memory.dtype)
    counts, strides = zip(*[(n, step * memory.itemsize) for n, step in steps], strict=True)
    return np.lib.stride_tricks.as_strided(memory[start:], counts, strides)


Sizes = Mapping[str, int]  # the integers of a call, by name
WrongIndex = tuple[int, int, int]  # the number of a region, the index, and the size that it exceeds


def run_on_memory(
    name: str, memories: Sequence[Any], starts: Iterable[int], sizes: dict[str, int]
) -> WrongIndex | None:
    """Runs a function on regions of flat arrays from some elements on, unless the region that it
    writes is empty. Returns the first index that is out of range, without running it, or None."""
    function, views, is_empty = LIBRARY[name], [], False
    for number, (region, memory, start) in enumerate(
        zip(function.regions, memories, starts, strict=True)
    ):
        steps = function.steps(region, sizes)
        outside = first_outside(memory, start, steps)
        if outside is not None:
            return number, outside, memory.size
        is_empty |= number == function.written and any(count <= 0 for count, _ in steps)
        views.append(strided_view(memory, start, steps))
    if is_empty:
        return None
    wrong = CHECKS[name](views, sizes) if name in CHECKS else None
    if wrong is None:
        ON_MEMORY[name](*views, sizes)
    return wrong


def _tiled_product(left: Any, right: Any, out: Any, _: Sizes) -> None:
    out[...] = left @ right


def _ordered_product(left: Any, right: Any, out: Any, _: Sizes) -> None:
    for column, line in zip(left.T, right, strict=True):
        out += column[:, None] * line


def _pack_panels(panels: Any, source: Any, sizes: Sizes) -> None:
    panels[:, : sizes["columns"]] = source


def _packed_product(left: Any, panels: Any, out: Any, sizes: Sizes) -> None:
    out[...] = left @ panels[:, : sizes["columns"]]


def _column_product(left: Any, right: Any, out: Any, sizes: Sizes) -> None:
    out[...] = left @ right[:, sizes["first"] :][:, : sizes["columns"]]


def _gathered_product(left: Any, right: Any, starts: Any, out: Any, sizes: Sizes) -> None:
    out[...] = left @ right[_gathered_indices(starts, sizes)]


def _pixel_product(
    weights: Any, image: Any, starts: Any, points: Any, out: Any, sizes: Sizes
) -> None:
    rows = weights[sizes["first"] :][: sizes["rows"]]
    out[...] = rows @ image[starts[:, None] + points]


def _gathered_indices(starts: Any, sizes: Sizes) -> Any:
    return starts[:, None] + np.arange(sizes["columns"])


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


def _narrow_panels(region: int, views: Sequence[Any], sizes: Sizes) -> WrongIndex | None:
    last = -(-sizes["columns"] // PANEL_COLUMNS) * PANEL_COLUMNS - 1
    size = max(sizes["panel_columns"], 0)
    return (region, last, size) if last >= size else None


def _columns_outside(views: Sequence[Any], sizes: Sizes) -> WrongIndex | None:
    return _outside_part(1, sizes["first"], sizes["columns"], sizes["all_columns"])


def _outside_part(region: int, first: int, count: int, size: int) -> WrongIndex | None:
    """Returns the first or the last index of a part of a region, if that is outside of it."""
    size = max(size, 0)
    for index in (first, first + count - 1):
        if not 0 <= index < size:
            return region, index, size
    return None


def _gathered_outside(views: Sequence[Any], sizes: Sizes) -> WrongIndex | None:
    return _outside_span(1, [views[2]], sizes["columns"] - 1, max(sizes["span"], 0))


def _pixels_outside(views: Sequence[Any], sizes: Sizes) -> WrongIndex | None:
    wrong = _outside_part(0, sizes["first"], sizes["rows"], sizes["weight_rows"])
    return wrong or _outside_span(1, views[2:4], 0, max(sizes["span"], 0))


def _outside_span(region: int, tables: Sequence[Any], more: int, span: int) -> WrongIndex | None:
    """Returns the first entry of tables, or sum of the greatest ones, outside of a region."""
    for table in tables:
        wrong = table[(table < 0) | (table >= span)]
        if wrong.size:
            return region, int(wrong[0]), span
    last = sum(int(table.max()) for table in tables if table.size) + more
    return (region, last, span) if last >= span and all(t.size for t in tables) else None


Check = Callable[[Sequence[Any], Sizes], WrongIndex | None]
CHECKS: dict[str, Check] = {
    "pack_panels": partial(_narrow_panels, 0),
    "packed_product": partial(_narrow_panels, 1),
    "column_product": _columns_outside,
    "gathered_product": _gathered_outside,
    "pixel_product": _pixels_outside,
}
ON_MEMORY: dict[str, Callable[..., None]] = {
    "tiled_product": _tiled_product,
    "ordered_product": _ordered_product,
    "pack_panels": _pack_panels,
    "packed_product": _packed_product,
    "column_product": _column_product,
    "gathered_product": _gathered_product,
    "pixel_product": _pixel_product,
    "transpose": _transpose,
    "window_products": _over_windows(np.add, 0.0),
    "window_sums": _over_windows(np.add, 0.0),
    "window_maxima": _over_windows(np.maximum, -np.inf),
    "window_minima": _over_windows(np.minimum, np.inf),
}
