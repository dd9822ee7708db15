"""Mappings of gather, scatter and dynamic slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.positions import Positions
from structir.frontend.jax.ops.shapes import sliced
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import dims_of, index_range, number, reshape_to, size_number
from structir.ir.dims import Dim
from structir.ir.dtype import is_float, numpy_dtype
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.lazy import lazy_module
from structir.script import R

np = lazy_module("numpy")
REDUCTIONS = {
    "scatter": "update",
    "scatter-update": "update",
    "scatter-add": "add",
    "scatter_add": "add",
    "scatter-sub": "add",
    "scatter_sub": "add",
    "scatter-mul": "mul",
    "scatter_mul": "mul",
    "scatter-min": "min",
    "scatter_min": "min",
    "scatter-max": "max",
    "scatter_max": "max",
}
SUBTRACTIONS = ("scatter-sub", "scatter_sub")


def _numbers(axes: Any) -> list[int]:
    return [int(axis) for axis in axes]


# ---- gather


@jax_primitive("gather")
def gather(equation: Equation) -> Expr:
    """Builds the gather of XLA: windows of the operand at the indices.

    Unless they are filled, windows outside of the operand are moved into it, as XLA does even for
    windows that are promised to be inside.
    """
    x, indices = equation.args
    numbers = equation.params["dimension_numbers"]
    window = [equation.dim(size) for size in equation.params["slice_sizes"]]
    window += equation.dims()[len(window) :]  # the data of a key
    batching = _numbers(numbers.operand_batching_dims)
    positions = Positions(
        equation,
        window,
        _numbers(numbers.start_index_map),
        batching,
        _numbers(numbers.start_indices_batching_dims),
        equation.params["mode"].name == "FILL_OR_DROP",
    )
    removed = {*_numbers(numbers.collapsed_slice_dims), *batching}
    kept = [k for k in range(len(window)) if k not in removed]
    if isinstance(indices, Constant) and not positions.batch:
        return _constant_window(positions, indices.data.tolist(), kept)
    moved = [k for k in range(len(window)) if k in positions.mapped or k in batching]
    whole = [k for k in kept if k not in moved]
    cut = [k for k in whole if window[k] != positions.sizes[k]]
    if cut:
        x = sliced(x, cut, [0] * len(cut), [window[k] for k in cut])
    inner = [k for k in kept if k in moved]
    if len(moved) == 1 and not inner and not batching:
        result = _rows(positions, x, moved[0])
    else:
        result = _elements(positions, x, moved, whole, inner)
    result = _filled(positions, result, len(kept))
    rank = len(positions.batch)
    axes = {axis: rank + k for k, axis in enumerate([*inner, *whole])}
    places = _numbers(numbers.offset_dims)
    places += range(rank + len(places), rank + len(kept))
    return _placed(result, [axes[axis] for axis in kept], places)


def _rows(positions: Positions, x: Expr, axis: int) -> Expr:
    """Returns the slices of one axis at the starts, with the batch axes first."""
    equation, rank = positions.equation, len(positions.batch)
    gathered = equation.emit(R.take(equation.emit(x), positions.start(axis), axis=axis))
    batch = range(axis, axis + rank)
    order = [*batch, *[k for k in range(len(dims_of(gathered))) if k not in batch]]
    return _permuted(equation, gathered, order)


def _elements(
    positions: Positions,
    x: Expr,
    moved: Sequence[int],
    whole: Sequence[int],
    inner: Sequence[int],
) -> Expr:
    """Returns the elements at positions along the moved axes: the batch axes, the inner window
    axes, then the axes that are whole."""
    equation = positions.equation
    x = _permuted(equation, equation.emit(x), [*moved, *whole])
    indices = []
    for axis in moved:
        place = inner.index(axis) if axis in inner else None
        indices.append(positions.along(axis, positions.start(axis), place, len(inner)))
    bound = tuple([equation.emit(index) for index in indices])
    return equation.emit(R.index_tensor(x, Tuple(bound)))


def _permuted(equation: Equation, x: Expr, order: Sequence[int]) -> Expr:
    order = list(order)
    return x if order == sorted(order) else equation.emit(R.permute_dims(x, order))


def _constant_window(positions: Positions, starts: list[int], kept: Sequence[int]) -> Expr:
    """Returns the one window of a gather at constant starts, moved inside the operand."""
    equation = positions.equation
    begin: list[Dim] = [0] * len(positions.window)
    for axis, start in zip(positions.mapped, starts, strict=True):
        last = positions.sizes[axis] - positions.window[axis]
        begin[axis] = max(min(start, last) if isinstance(last, int) else start, 0)
    end = [b + w for b, w in zip(begin, positions.window, strict=True)]
    window = equation.emit(sliced(equation.args[0], range(len(begin)), begin, end))
    return reshape_to(window, [positions.window[k] for k in kept])


def _filled(positions: Positions, result: Expr, count: int) -> Expr:
    """Returns the windows with the fill value where they are not inside the operand."""
    inside = positions.inside(count)
    if inside is None:
        return result
    equation = positions.equation
    value, dtype = equation.params["fill_value"], equation.out_dtype()
    if value is None:
        value = _default_filler(dtype)
    return equation.emit(R.where(inside, result, number(value, dtype)))


def _default_filler(dtype: str) -> Any:
    """Returns NaN, the lowest signed or the highest unsigned integer, or True."""
    if is_float(dtype):
        return math.nan
    if dtype == "bool":
        return True
    limits = np.iinfo(numpy_dtype(dtype))
    return limits.min if limits.min < 0 else limits.max


def _placed(result: Expr, windows: Sequence[int], places: Sequence[int]) -> Expr:
    """Moves the window axes to their places in the result; the batch axes keep their order."""
    rank = len(dims_of(result))
    batch = iter([k for k in range(rank) if k not in windows])
    source = dict(zip(places, windows, strict=True))
    order = [source[k] if k in source else next(batch) for k in range(rank)]
    return result if order == sorted(order) else R.permute_dims(result, order)


# ---- scatter


@jax_primitive(*REDUCTIONS)
def scatter(equation: Equation) -> Expr:
    """Builds the scatter of XLA on the flat operand; updates outside of it are dropped."""
    x, _, updates = equation.args
    numbers = equation.params["dimension_numbers"]
    batching = _numbers(numbers.operand_batching_dims)
    places = _numbers(numbers.update_window_dims)
    sizes, update_sizes = dims_of(x), dims_of(updates)
    removed = {*_numbers(numbers.inserted_window_dims), *batching}
    kept = [k for k in range(len(sizes)) if k not in removed]
    window: list[Dim] = [1] * len(sizes)
    for axis, place in zip(kept, places, strict=True):
        window[axis] = update_sizes[place]
    positions = Positions(
        equation,
        window,
        _numbers(numbers.scatter_dims_to_operand_dims),
        batching,
        _numbers(numbers.scatter_indices_batching_dims),
        equation.params["mode"].name != "CLIP",  # XLA drops what is promised to be inside, too
    )
    order = [*[k for k in range(len(update_sizes)) if k not in places], *places]
    updates = _permuted(equation, updates, order)
    if equation.name in SUBTRACTIONS:
        updates = equation.emit(R.negative(updates))
    flat = _flat_positions(positions, kept, dims_of(updates))
    return _scattered(equation, flat, updates)


def _flat_positions(positions: Positions, kept: Sequence[int], shape: Sequence[Dim]) -> Expr:
    """Returns the flat position of each update, one behind the operand where it is dropped."""
    equation = positions.equation
    result: Expr = number(0, "int64")
    for axis, size in enumerate(positions.sizes):
        place = kept.index(axis) if axis in kept else None
        along = positions.along(axis, positions.start(axis), place, len(kept))
        result = equation.emit(R.add(R.multiply(result, size_number(size, "int64")), along))
    inside = positions.inside(len(kept))
    if inside is not None:
        total = size_number(math.prod(positions.sizes), "int64")
        result = equation.emit(R.where(inside, result, total))
    return equation.emit(R.broadcast_to(result, ShapeExpr(tuple(shape))))


def _scattered(equation: Equation, flat: Expr, updates: Expr) -> Expr:
    """Returns the operand with the updates at flat positions; one more element takes those that
    are dropped."""
    x, dtype = equation.args[0], equation.dtype()
    sizes, count, total = dims_of(x), math.prod(dims_of(flat)), math.prod(dims_of(x))
    spare = R.full(ShapeExpr((1,)), number(0, dtype))
    extended = equation.emit(R.concat([reshape_to(x, [total]), spare], axis=0))
    index, values = reshape_to(flat, [count]), reshape_to(updates, [count])
    reduction = REDUCTIONS[equation.name]
    scattered = R.scatter_elements(extended, index, values, axis=0, reduction=reduction)
    return reshape_to(sliced(equation.emit(scattered), [0], [0], [total]), sizes)


# ---- dynamic slices


@jax_primitive("dynamic_slice")
def dynamic_slice(equation: Equation) -> Expr:
    """Builds a slice at starts that are read from tensors; it is moved inside the operand."""
    result, *starts = equation.args
    sizes = [equation.dim(size) for size in equation.params["slice_sizes"]]
    for axis, start in enumerate(starts[: len(sizes)]):
        full = dims_of(result)[axis]
        if sizes[axis] != full:
            first = _clamped(equation, start, full - sizes[axis])
            rows = R.add(index_range(sizes[axis]), first)
            result = equation.emit(R.take(result, rows, axis=axis))
    return result


def _clamped(equation: Equation, start: Expr, last: Dim) -> Expr:
    inside = R.minimum(R.astype(start, "int64"), size_number(last, "int64"))
    return equation.emit(R.maximum(inside, number(0, "int64")))


@jax_primitive("dynamic_update_slice")
def dynamic_update_slice(equation: Equation) -> Expr:
    x, update, *starts = equation.args
    sizes, window = dims_of(x), dims_of(update)
    moved = [k for k in range(len(sizes)) if window[k] != sizes[k]]
    if not moved:
        return update
    order = [*moved, *[k for k in range(len(sizes)) if k not in moved]]
    base, values = (_permuted(equation, value, order) for value in (x, update))
    indices = []
    for place, axis in enumerate(moved):
        first = _clamped(equation, starts[axis], sizes[axis] - window[axis])
        aligned = [window[axis] if k == place else 1 for k in range(len(moved))]
        indices.append(equation.emit(R.add(reshape_to(index_range(window[axis]), aligned), first)))
    result = equation.emit(R.index_put(base, Tuple(tuple(indices)), values))
    return _permuted(equation, result, [order.index(k) for k in range(len(order))])
