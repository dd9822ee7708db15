"""Sums over windows of planes, as in depthwise convolutions, and pools: recognized by their index
maps, and computed by a library function, one call for each plane."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.loops.products.contraction import factors_of
from structir.loops.program.access import address_of, split
from structir.loops.program.expression import Entry, Expression, Load
from structir.loops.program.stage import Stage
from structir.targets.cpu.products import has_products_of_floats
from structir.targets.cpu.window_sums import form_of_window

# The library functions of pools, by monoids.
POOLS = {"sum": "window_sums", "max": "window_maxima", "min": "window_minima"}
FEW_SUMS = 4  # of one image: the rows of a product tile


@attrs.frozen
class PlaneAxis:
    """One axis of a plane: the axis of the results, the axis of the window, and its strides."""

    axis: Sym
    tap: Sym
    count: int  # of the window
    step: int
    dilation: int
    before: Dim  # how far before the image the first window begins
    entry: int  # of the image


@attrs.frozen
class SumOfWindows:
    """out[..., r, c] = sum over i, j of image[..., r * s + i * d - p, ...] * weights[..., i, j].

    Without weights it is a pool: the sum, the maximum or the minimum.
    """

    image: Load
    weights: Load | None
    row: PlaneAxis
    column: PlaneAxis
    outer: tuple[Sym, ...]


def sum_of_windows(stage: Stage) -> SumOfWindows | None:
    """Returns the sum over windows that a stage is, if the library can compute it; memoized."""
    known = stage.__dict__
    if "_sum_of_windows" not in known:
        known["_sum_of_windows"] = _sum_of_windows(stage)
    return known["_sum_of_windows"]  # type: ignore[no-any-return]


def _sum_of_windows(stage: Stage) -> SumOfWindows | None:
    plain = stage.unique and stage.exists is None and stage.running is None
    if not plain or stage.out.dtype != "float32" or not has_products_of_floats("float32"):
        return None
    if len(stage.reduce) != 2 or any(isinstance(entry, Expression) for entry in stage.write):
        return None
    for weights, image in _operands(stage):
        axes = _plane_axes(image, stage)
        if axes is None or not _guards_agree(image, axes, stage):
            continue
        row, column = axes
        plane = (row.axis, column.axis)
        outer = tuple([axis for axis in stage.parallel if axis not in plane])
        weighted = weights is None or _are_weights(weights, axes, stage)
        if weighted and _is_written_in_rows(stage, column):
            return SumOfWindows(image, weights, row, column, outer)
    return None


def _operands(stage: Stage) -> list[tuple[Load | None, Load]]:
    """Returns the weights and the image, in either order; or the image of a pool."""
    body = stage.body
    if isinstance(body, Load) and stage.monoid in POOLS and body.dtype == "float32":
        return [(None, body)]
    factors = factors_of(stage)
    return [] if factors is None else [factors, factors[::-1]]


def is_faster_than_product(stage: Stage) -> bool:
    """Whether a stage is a sum over windows with few results for each plane of the image."""
    windows = sum_of_windows(stage)
    if windows is None:
        return False
    used = [axis for e in windows.image.entries for axis in _symbols(e)]
    sums = prod(stage.extents[axis] for axis in windows.outer if axis not in used)
    return isinstance(sums, int) and sums < FEW_SUMS


def _symbols(entry: Entry) -> frozenset[Sym]:
    return frozenset() if isinstance(entry, Expression) else frozenset(dims.syms(entry))


def _plane_axes(image: Load, stage: Stage) -> tuple[PlaneAxis, PlaneAxis] | None:
    """Returns the row and the column axis of the planes of an image; columns are contiguous."""
    moving = list[PlaneAxis]()
    for number, entry in enumerate(image.entries):
        if isinstance(entry, Expression):
            return None
        steps, start = split(entry, stage.axes)
        if dims.syms(start) & set(stage.axes):
            return None
        taps = [axis for axis in steps if axis in stage.reduce]
        if not taps:
            continue
        axes = [axis for axis in steps if axis not in stage.reduce]
        if len(taps) != 1 or len(axes) != 1:
            return None
        numbers = steps[axes[0]], steps[taps[0]], stage.extents[taps[0]]
        step, dilation, count = [n if isinstance(n, int) and n > 0 else 0 for n in numbers]
        if not (step and dilation and count):
            return None
        moving.append(PlaneAxis(axes[0], taps[0], count, step, dilation, -start, number))
    if len(moving) != 2 or len({m.axis for m in moving}) != 2 or len({m.tap for m in moving}) != 2:
        return None
    row, column = moving if image.buffer.strides[moving[1].entry] == 1 else moving[::-1]
    plane = {row.axis, column.axis}
    others = [e for k, e in enumerate(image.entries) if k not in (row.entry, column.entry)]
    if image.buffer.strides[column.entry] != 1 or any(plane & _symbols(e) for e in others):
        return None
    window = window_of(row, column)
    return (row, column) if form_of_window(window, 1, 1).is_supported() else None


def window_of(row: PlaneAxis, column: PlaneAxis) -> tuple[int, ...]:
    """Returns the sizes, strides and dilations of a window."""
    return (row.count, column.count, row.step, column.step, row.dilation, column.dilation)


def _guards_agree(image: Load, axes: Iterable[PlaneAxis], stage: Stage) -> bool:
    """Whether points are absent only where they would read outside of the image."""
    bounds = set[Dim]()
    for axis in axes:
        entry, size = image.entries[axis.entry], image.buffer.shape[axis.entry]
        assert not isinstance(entry, Expression)
        bounds |= {entry, size - 1 - entry}
    return all(guard.value in bounds for guard in stage.guards)


def _are_weights(weights: Load, axes: Iterable[PlaneAxis], stage: Stage) -> bool:
    """Whether each tap has one element of the weights, the same for all results of a plane."""
    address = address_of(weights.buffer, weights.entries, stage.axes)
    if address.data or address.pinned(stage.axes):
        return False
    plane = {axis.axis for axis in axes}
    return not plane & set(address.coefficients)


def _is_written_in_rows(stage: Stage, column: PlaneAxis) -> bool:
    address = address_of(stage.out, stage.write, stage.axes)
    plain = not address.data and not address.pinned(stage.axes)
    return plain and address.coefficient(column.axis) == 1
