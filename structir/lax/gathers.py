"""Gathers and scatters of windows at indices, with the dimension numbers of XLA."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import attrs

from structir.ir.dtype import is_float, numpy_dtype
from structir.lax.checks import invalid, per_axis
from structir.lazy import lazy_module
from structir.numpy import creation, elementwise, indexing, shaping
from structir.numpy import updates as updating
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression
from structir.tracing.array import operand as as_operand
from structir.tracing.context import traced

np = lazy_module("numpy")
__all__ = ["GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers"]


class GatherScatterMode(enum.Enum):
    """The treatment of windows that are not inside the array."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @classmethod
    def from_any(cls, mode: Any) -> GatherScatterMode:
        """Returns a mode for its name. Raises DiagnosticError for another name."""
        names = {member.value: member for member in cls} | {"drop": cls.FILL_OR_DROP}
        if isinstance(mode, cls):
            return mode
        if mode not in names:
            raise invalid(f"mode: expected one of {', '.join(names)}, found {mode!r}")
        return names[mode]


class GatherDimensionNumbers(NamedTuple):
    """The axes of a gather.

    The window axes of the result are at `offset_dims`, without the axes of size 1 that are
    collapsed. `start_index_map` has the axis of the array for each element of an index vector.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """The axes of a scatter, as those of a gather whose result are the updates."""

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


@attrs.frozen(eq=False)
class Windows:
    """Windows of an array at index vectors along the last axis of `indices`."""

    array: TracedArray
    indices: TracedArray
    sizes: list[Any]  # of a window
    mapped: list[int]  # the axis of each element of an index vector
    removed: list[int]  # axes that windows of the result lack
    batching: dict[int, int]  # axes of the array and those of the indices, whose elements agree
    is_clipped: bool

    @property
    def batch(self) -> tuple[Any, ...]:
        """The shape of the array of index vectors."""
        return self.indices.shape[:-1]

    @property
    def kept(self) -> list[int]:
        """The axes of the array that windows of the result have."""
        return [k for k in range(self.array.ndim) if k not in self.removed]

    def start(self, axis: int) -> TracedArray | None:
        """Returns the starts along an axis, which have the shape of the batch; None is 0."""
        rank = len(self.batch)
        if axis in self.batching:
            place = self.batching[axis]
            sizes = [-1 if k == place else 1 for k in range(rank)]
            return shaping.reshape(creation.arange(self.batch[place], dtype="int64"), sizes)
        if axis not in self.mapped:
            return None
        start = cast(self.indices[..., self.mapped.index(axis)], "int64")
        last = self.array.shape[axis] - self.sizes[axis]
        return elementwise.clip(start, 0, last) if self.is_clipped else start

    def inside(self) -> TracedArray | None:
        """Returns whether each window is inside the array; None if all are."""
        checks = []
        for axis in () if self.is_clipped else self.mapped:
            start = self.start(axis)
            assert start is not None
            last = self.array.shape[axis] - self.sizes[axis]
            checks.append((start >= 0) & (start <= last))
        result = checks[0] if checks else None
        for check in checks[1:]:
            result = result & check
        if result is None:
            return None
        return shaping.reshape(result, (*self.batch, *[1] * len(self.kept)))

    def positions(self) -> TracedArray:
        """Returns the positions of the elements of windows in the array of rank 1: the batch, then
        the kept axes."""
        kept, rank = self.kept, len(self.batch)
        total: Any = creation.zeros((), "int64")
        for axis, size in enumerate(self.array.shape):
            along: Any = 0
            start = self.start(axis)
            if start is not None:
                along = shaping.reshape(start, (*start.shape, *[1] * len(kept)))
            if axis in kept:
                aligned = [-1 if k == axis else 1 for k in kept]
                steps = creation.arange(self.sizes[axis], dtype="int64")
                along = along + shaping.reshape(steps, ([1] * rank) + aligned)
            total = total * size + along
        sizes = (*self.batch, *[self.sizes[k] for k in kept])
        return shaping.broadcast_to(total, sizes)


def _windows(
    array: TracedArray, indices: Any, sizes: Sequence[Any], numbers: Any, is_clipped: bool
) -> Windows:
    """Returns windows for the numbers of a gather or scatter. Raises DiagnosticError for index
    vectors of another length."""
    mapped, outer, inner = ([int(k) for k in axes] for axes in numbers[2:])
    removed = [*[int(k) for k in numbers[1]], *outer]
    vectors = as_operand(indices)
    if not vectors.ndim or vectors.shape[-1] != len(mapped):
        expected = f"expected index vectors of {len(mapped)} elements along the last axis"
        raise invalid(f"dimension_numbers: {expected}, found {vectors.aval}")
    batching = dict(zip(outer, inner, strict=True))
    return Windows(array, vectors, list(sizes), mapped, removed, batching, is_clipped)


@traced
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[Any],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> TracedArray:
    """Returns windows of an array at index vectors along the last axis of `start_indices`.

    Windows that are not inside the array are moved into it, or with the mode "fill" replaced by
    `fill_value`: by default NaN, the lowest signed or the highest unsigned integer, or True.
    """
    array = as_operand(operand)
    sizes = per_axis(slice_sizes, array, "gather: slice_sizes")
    chosen = GatherScatterMode.from_any(mode or GatherScatterMode.PROMISE_IN_BOUNDS)
    is_filled = chosen == GatherScatterMode.FILL_OR_DROP
    windows = _windows(array, start_indices, sizes, dimension_numbers, not is_filled)
    places = [int(k) for k in dimension_numbers.offset_dims]
    if len(places) != len(windows.kept):
        expected = f"expected {len(windows.kept)} axes, one for each axis that is not collapsed"
        raise invalid(f"gather: offset_dims: {expected}, found {dimension_numbers.offset_dims}")
    result = _taken(windows, is_filled)
    inside = windows.inside()
    if inside is not None:
        value = _default_filler(array.dtype_name) if fill_value is None else fill_value
        filler = cast(as_operand(value), array.dtype_name)
        result = elementwise.where(inside, result, filler)
    return _placed(result, len(windows.batch), places)


def _taken(windows: Windows, is_filled: bool) -> TracedArray:
    """Returns the elements of windows: rows of one axis, or elements at positions."""
    array = windows.array
    whole = [k for k in windows.kept if windows.sizes[k] == array.shape[k]]
    if len(windows.mapped) == 1 and not windows.batching and whole == windows.kept:
        (axis,) = windows.mapped
        start = windows.start(axis)
        assert start is not None
        if axis not in whole:
            rows = indexing.take(array, elementwise.clip(start, 0, array.shape[axis] - 1), axis)
            rank = len(windows.batch)
            batch = [*range(axis, axis + rank)]
            others = [k for k in range(rows.ndim) if k not in batch]
            return shaping.transpose(rows, [*batch, *others])
    positions = windows.positions()
    if is_filled:
        positions = elementwise.clip(positions, 0, array.size - 1)
    return indexing.take(shaping.ravel(array), positions, 0)


def _default_filler(dtype: str) -> Any:
    if is_float(dtype) or dtype == "bool":
        return math.nan if is_float(dtype) else True
    limits = np.iinfo(numpy_dtype(dtype))
    return limits.min if limits.min < 0 else limits.max


def _placed(result: TracedArray, rank: int, places: Sequence[int]) -> TracedArray:
    """Moves the axes behind the first ones to their places; the first ones keep their order."""
    windows, batch = dict(zip(places, range(rank, result.ndim), strict=True)), iter(range(rank))
    order = [windows[k] if k in windows else next(batch) for k in range(result.ndim)]
    return shaping.transpose(result, order)


# ---- scatters


def _scattered(
    name: str, operand: Any, indices: Any, updates: Any, numbers: Any, mode: Any
) -> TracedArray:
    """Returns an array combined with the windows of updates that are inside of it."""
    array = as_operand(operand)
    changes = cast(as_operand(updates), array.dtype_name)
    if array.dtype_name == "bool":
        wide = [cast(x, "int8") for x in (array, changes)]
        return cast(_scattered(name, wide[0], indices, wide[1], numbers, mode), "bool")
    places = [int(k) for k in numbers.update_window_dims]
    removed = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    kept = [k for k in range(array.ndim) if k not in removed]
    if len(kept) != len(places):
        expected = f"expected {len(kept)} axes, one for each axis that is not inserted"
        raise invalid(f"scatter: update_window_dims: {expected}, found {tuple(places)}")
    sizes: list[Any] = [1] * array.ndim
    for axis, place in zip(kept, places, strict=True):
        sizes[axis] = changes.shape[place]
    chosen = GatherScatterMode.from_any(mode or GatherScatterMode.FILL_OR_DROP)
    windows = _windows(array, indices, sizes, numbers, chosen == GatherScatterMode.CLIP)
    outer = [k for k in range(changes.ndim) if k not in places]
    values = shaping.transpose(changes, [*outer, *places])
    positions, total = windows.positions(), array.size
    inside = windows.inside()
    if inside is not None:
        positions = elementwise.where(inside, positions, total)
    spare = creation.zeros((1,), array.dtype_name)
    extended = shaping.concatenate([shaping.ravel(array), spare], 0)
    call = R.scatter_elements(
        *[expression(x) for x in (extended, shaping.ravel(positions), shaping.ravel(values))],
        axis=0,
        reduction=name,
    )
    return shaping.reshape(emit(call)[:total], array.shape)


def _scatter(name: str, reduction: str, text: str) -> Callable[..., TracedArray]:
    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: Any = None,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> TracedArray:
        if dimension_numbers is None:
            operation = {"update": "set", "mul": "multiply"}.get(reduction, reduction)
            return updating.updated(operand, scatter_indices, updates, operation)
        return _scattered(reduction, operand, scatter_indices, updates, dimension_numbers, mode)

    scatter.__name__ = scatter.__qualname__ = name
    scatter.__doc__ = f"""Returns the array {text} windows of updates at index vectors.

    Without `dimension_numbers`, the updates are rows at indices of the first axis. Windows that are
    not inside the array are dropped, or moved into it with the mode "clip".
    """
    return traced(scatter)


scatter = _scatter("scatter", "update", "replaced by")
scatter_add = _scatter("scatter_add", "add", "with the sums of")
scatter_mul = _scatter("scatter_mul", "mul", "multiplied by")
scatter_min = _scatter("scatter_min", "min", "limited from above by")
scatter_max = _scatter("scatter_max", "max", "limited from below by")


@traced
def scatter_sub(
    operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: Any = None, **options: Any
) -> TracedArray:
    """Returns the array less windows of updates at index vectors; see `scatter_add`."""
    changes = elementwise.negative(updates)
    return scatter_add(operand, scatter_indices, changes, dimension_numbers, **options)


@traced
def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> TracedArray:
    """Returns the slices at positions along some axes, whose results are along axis 0."""
    array, positions = as_operand(src), [as_operand(index) for index in idxs]
    order = [*axes, *[k for k in range(array.ndim) if k not in axes]]
    moved = shaping.transpose(array, order)
    return indexing.getitem(moved, tuple(positions))
