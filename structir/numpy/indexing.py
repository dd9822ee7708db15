"""Indexing: `x[index]`, functional updates `x.at[index]`, and reads at indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, ShapeExpr, Tuple
from structir.lazy import lazy_module
from structir.numpy.creation import arange
from structir.numpy.elementwise import maximum as larger
from structir.numpy.elementwise import minimum as smaller
from structir.numpy.elementwise import where
from structir.numpy.shaping import (
    axis_of,
    broadcast_to,
    expand_dims,
    ravel,
    transpose,
)
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, emit, expression, of_rank, operand, promoted
from structir.tracing.context import traced
from structir.tracing.size import TracedSize, as_dim, size

np = lazy_module("numpy")


def _fail(message: str, hint: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic(f"index: {message}", hint=hint, code="E1108"))


@attrs.frozen
class BasicIndex:
    """The effect of ints, slices, None and Ellipsis: the slices and the axes of the result."""

    slices: dict[int, tuple[Dim, Dim, int]]  # begin, end and step of axes of the operand
    reversed: tuple[int, ...]
    advanced: dict[int, TracedArray]  # positions along axes of the operand
    removed: tuple[int, ...]
    inserted: tuple[int, ...]  # axes of size 1 among the kept axes of the operand
    separated: bool  # whether a slice is between two advanced indices


def is_position(item: Any) -> bool:
    return isinstance(item, TracedArray) or hasattr(item, "__array__") or isinstance(item, list)


def _expanded(x: TracedArray, index: Any) -> list[Any]:
    """Returns one item for each axis of the operand, and None for new axes."""
    items = list(index) if isinstance(index, tuple) else [index]
    plain: list[Any] = []
    for item in items:
        if isinstance(item, np.generic):
            item = item.item()
        if is_mask(item):
            plain += _mask_positions(item)
        else:
            plain.append(item)
    used = len([item for item in plain if item is not None and item is not Ellipsis])
    if used > x.ndim:
        raise _fail(f"expected at most {x.ndim} indices, found {used}")
    rest = [slice(None)] * (x.ndim - used)
    if any([item is Ellipsis for item in plain]):
        position = next(k for k, item in enumerate(plain) if item is Ellipsis)
        return [*plain[:position], *rest, *plain[position + 1 :]]
    return [*plain, *rest]


def is_mask(item: Any) -> bool:
    if isinstance(item, TracedArray):
        return item.dtype_name == "bool"
    if isinstance(item, bool):
        return True
    if isinstance(item, list):
        item = np.asarray(item) if not any([isinstance(i, TracedArray) for i in item]) else item
    return str(getattr(item, "dtype", "")) == "bool"


def _mask_positions(mask: Any) -> list[Any]:
    if isinstance(mask, TracedArray) and not isinstance(mask.expr, Constant):
        hint = "select with `structir.numpy.where(mask, x, 0)`, which keeps the shape"
        raise _fail("the number of true elements of a traced mask is known only at run time", hint)
    constant: Any = mask.expr if isinstance(mask, TracedArray) else None
    data = np.asarray(mask) if constant is None else constant.data
    return list(np.nonzero(data))


def _slice_of(item: slice, length: Dim) -> tuple[Dim, Dim, int]:
    """Returns begin, end and step of a slice, with begin <= end where both are known."""
    step = 1 if item.step is None else int(item.step)
    if not step:
        raise _fail("expected a step other than 0, found 0")
    if step < 0:
        return _reversed_slice(item, length, step)
    low: Dim = _bound(item.start, length, 0)
    high = _bound(item.stop, length, length)
    if isinstance(low, int) and isinstance(high, int) and min(low, high) >= 0:
        high = max(low, high)
    return low, high, step


def _reversed_slice(item: slice, length: Dim, step: int) -> tuple[Dim, Dim, int]:
    """Returns begin, end and step of a slice from the end, whose elements are then reversed."""
    if isinstance(length, int):
        start, stop, _ = item.indices(length)
        count = max(0, (start - stop - step - 1) // -step)
        return (start + (count - 1) * step, start + 1, step) if count else (0, 0, step)
    if item.start is None and item.stop is None:
        return dims.floormod(length - 1, -step), length, step
    first, last = _from_end(item.start, length, length - 1), _from_end(item.stop, length, -1)
    number = dims.dim_max(dims.floordiv(first - last - step - 1, -step), 0)
    return first + (number - 1) * step, first + 1, step  # begins behind the end for none


def _from_end(value: Any, length: Dim, default: Dim) -> Dim:
    """Returns a bound of a slice from the end, as a position from -1 to the last element."""
    bound = _bound(value, length, default)
    if value is None:
        return default
    bound = dims.select(dims.compare("<", bound, 0), bound + length, bound)
    return dims.dim_min(dims.dim_max(bound, -1), length - 1)


def _bound(value: Any, length: Dim, default: Dim) -> Dim:
    if value is None:
        return default
    if isinstance(value, TracedArray):
        hint = "use `structir.lax.dynamic_slice_in_dim(x, start, size)`: the size is known now"
        raise _fail("the bounds of a slice are Python integers or sizes, found an array", hint)
    bound = as_dim(value)
    if isinstance(bound, int) and isinstance(length, int):
        return max(0, length + bound) if bound < 0 else min(bound, length)
    return bound  # `strided_slice` adds the size to a negative one, and clamps


def _analysed(x: TracedArray, index: Any) -> BasicIndex:
    slices: dict[int, tuple[Dim, Dim, int]] = {}
    flipped: list[int] = []
    advanced: dict[int, TracedArray] = {}
    removed: list[int] = []
    inserted: list[int] = []
    order: list[str] = []
    axis = kept = 0
    expanded = _expanded(x, index)
    arrays = any([is_position(i) and operand(i).ndim for i in expanded if i is not None])
    for item in expanded:
        if item is None:
            inserted.append(kept)
            order.append("new")
            kept += 1
            continue
        length = x.dims[axis]
        if isinstance(item, slice):
            low, high, step = _slice_of(item, length)
            if step < 0:
                flipped.append(axis)
            if (low, high, abs(step)) != (0, length, 1):
                slices[axis] = (low, high, abs(step))
            kept += 1
            order.append("slice")
        elif is_position(item):
            advanced[axis] = within(operand(item), length)
            order.append("array")
        elif arrays and not isinstance(item, TracedSize):
            advanced[axis] = within(operand(checked_index(item, length)), length)
            order.append("array")
        else:
            slices[axis] = _one_element(item, length)
            removed.append(axis)
            order.append("int")
        axis += 1
    positions = [k for k, kind in enumerate(order) if kind == "array"]
    separated = (
        any([k not in positions for k in range(positions[0], positions[-1])])
        if positions
        else False
    )
    return BasicIndex(slices, tuple(flipped), advanced, tuple(removed), tuple(inserted), separated)


def checked_index(item: Any, length: Dim) -> Any:
    """Returns an integer index from the front. Raises DiagnosticError if it is out of range."""
    if isinstance(item, TracedSize):
        return item.dim
    if not hasattr(item, "__index__") or isinstance(item, str):
        hint = "index with integers, slices, None, ... and arrays of integers or bools"
        raise _fail(f"expected an integer, found {item!r}", hint)
    position = int(item.__index__())
    if isinstance(length, int) and not -length <= position < length:
        raise IndexError(f"index {position} is out of range for an axis of size {length}")
    return position + length if position < 0 else position


def _one_element(item: Any, length: Dim) -> tuple[Dim, Dim, int]:
    """Returns begin, end and step of the slice of one index, which is empty if the index is out of
    range."""
    position = checked_index(item, length)
    if isinstance(item, TracedSize) or isinstance(length, int) or int(item) >= 0:
        return position, position + 1, 1
    return int(item), int(item) + 1 or length, 1


def within(positions: TracedArray, length: Dim) -> TracedArray:
    """Returns positions from the front: negative ones count from the end."""
    if dtypes.category(positions.dtype_name) != dtypes.INTEGER:
        raise _fail(f"expected integers, found {positions.dtype_name}", "convert: `i.astype(int)`")
    if positions.dtype_name.startswith("u"):
        return positions
    if isinstance(positions.expr, Constant):
        data = positions.expr.data
        if (data >= 0).all():
            return positions
        if isinstance(length, int):
            return TracedArray(Constant(np.where(data < 0, data + length, data).astype(data.dtype)))
    return where(positions < 0, positions + size(length), positions)


@traced
def getitem(x: Any, index: Any) -> TracedArray:
    """Returns `x[index]`. Indices of arrays out of range read the nearest element."""
    array = operand(x)
    plan = _analysed(array, index)
    if plan.advanced and not plan.removed and not plan.slices and len(plan.advanced) == 1:
        ((axis, positions),) = plan.advanced.items()
        value = array
        for k in plan.reversed:
            value = emit(R.flip(expression(value), axis=k))
        result = _taken(value, positions, axis)
        return _inserted(result, plan, positions.ndim - 1 if positions.ndim else -1, axis)
    value = _sliced(array, plan)
    if not plan.advanced:
        return _basic_result(value, plan)
    if plan.removed:
        value = _without(value, plan.removed)
    renumbered = {axis: axis - len([r for r in plan.removed if r < axis]) for axis in plan.advanced}
    by_axis = {renumbered[axis]: positions for axis, positions in plan.advanced.items()}
    if len(by_axis) == 1 and not plan.separated:
        ((axis, positions),) = by_axis.items()
        result = _taken(value, positions, axis)
        return _inserted(result, plan, positions.ndim - 1, axis)
    return _gathered(value, by_axis, plan)


def _taken(x: TracedArray, positions: TracedArray, axis: int) -> TracedArray:
    """Reads slices along an axis; positions out of range read the nearest element."""
    length, mode = x.dims[axis], "clip"
    if isinstance(positions.expr, Constant) and isinstance(length, int):
        data = positions.expr.data
        mode = (
            "fast"
            if data.size == 0 or (int(data.max()) < length and int(data.min()) >= 0)
            else mode
        )
    return emit(R.take(expression(x), expression(positions), axis=axis, mode=mode))


def _sliced(x: TracedArray, plan: BasicIndex) -> TracedArray:
    if plan.slices:
        axes = list(plan.slices)
        low, high, steps = zip(*[plan.slices[axis] for axis in axes], strict=True)
        call = R.strided_slice(
            expression(x),
            axes=axes,
            begin=ShapeExpr(low),
            end=ShapeExpr(high),
            strides=list(steps),
        )
        x = emit(call, x.weak)
    for axis in plan.reversed:
        x = emit(R.flip(expression(x), axis=axis))
    return x


def _without(x: TracedArray, axes: Sequence[int]) -> TracedArray:
    return emit(R.squeeze(expression(x), list(axes)), x.weak)


def _basic_result(x: TracedArray, plan: BasicIndex) -> TracedArray:
    if plan.removed:
        x = _without(x, plan.removed)
    for position in plan.inserted:
        x = expand_dims(x, position)
    return x


def _inserted(x: TracedArray, plan: BasicIndex, more: int, axis: int) -> TracedArray:
    """Inserts the new axes of an index with one array along `axis`, which adds `more` axes."""
    for position in plan.inserted:
        before_array = axis - len([r for r in plan.removed if r < axis])
        before_array += len([p for p in plan.inserted if p <= before_array and p < position])
        shift = 0 if position <= before_array else more + 1
        x = expand_dims(x, position + shift)
    return x


def _gathered(x: TracedArray, by_axis: dict[int, TracedArray], plan: BasicIndex) -> TracedArray:
    """Reads elements at positions along several axes, which broadcast."""
    axes = list(by_axis)
    rest = [k for k in range(x.ndim) if k not in axes]
    moved = transpose(x, [*axes, *rest])
    positions, _ = promoted(*[_clamped(by_axis[axis], x.dims[axis]) for axis in axes])
    result = emit(R.index_tensor(expression(moved), Tuple(tuple(map(expression, positions)))))
    count = result.ndim - len(rest)
    if not plan.separated:
        first = len([k for k in rest if k < axes[0]])
        order = list(range(result.ndim))
        batch, others = order[:count], order[count:]
        result = transpose(result, [*others[:first], *batch, *others[first:]])
        return _inserted(
            result, plan, count - 1, axes[0] + len([r for r in plan.removed if r < axes[0]])
        )
    for position in plan.inserted:
        result = expand_dims(result, position + count)
    return result


def _clamped(positions: TracedArray, length: Dim) -> TracedArray:
    if isinstance(positions.expr, Constant) and isinstance(length, int):
        return positions
    return smaller(larger(positions, 0), size(length) - 1)


# ---- reads at indices


@traced
def take(
    a: Any, indices: Any, axis: int | None = None, mode: Literal["clip", "wrap"] | None = None
) -> TracedArray:
    """Returns slices at indices along an axis; None reads the elements as a vector.

    Negative indices count from the end, but with the mode "clip" they are clamped to 0.
    """
    array = ravel(a) if axis is None else operand(a)
    position = axis_of(axis or 0, array.ndim)
    rows = operand(indices)
    if mode not in (None, "clip", "wrap"):
        raise TypeError(f"take: expected the mode clip or wrap, found {mode!r}")
    if mode is None:
        return _taken(array, within(rows, array.dims[position]), position)
    return emit(R.take(expression(array), expression(rows), axis=position, mode=mode))


@traced
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> TracedArray:
    """Returns the elements at positions along an axis; other axes match or broadcast."""
    array, rows = operand(arr), operand(indices)
    if axis is None:
        array, rows, axis = ravel(array), ravel(rows), 0
    position = axis_of(axis, array.ndim)
    of_rank(rows, "take_along_axis: indices", array.ndim)
    shape = [
        a if k == position or _is_one(b) else b
        for k, (a, b) in enumerate(zip(array.shape, rows.shape, strict=True))
    ]
    row_shape = [
        b if k == position else s for k, (s, b) in enumerate(zip(shape, rows.shape, strict=True))
    ]
    array, rows = broadcast_to(array, shape), broadcast_to(rows, row_shape)
    rows = _clamped(within(rows, array.dims[position]), array.dims[position])
    return emit(R.gather_elements(expression(array), expression(rows), axis=position))


def _is_one(value: Any) -> bool:
    return isinstance(value, int) and value == 1


def dynamic_slice(operand_: Any, start_indices: Any, slice_sizes: Sequence[Any]) -> TracedArray:
    """Returns a slice of known sizes at a start known at run time; a negative start counts from the
    end, and the start is clamped."""
    array = operand(operand_)
    starts = [operand(s) for s in start_indices]
    for axis, (start, length) in enumerate(zip(starts, slice_sizes, strict=True)):
        whole = array.dims[axis]
        if as_dim(length) == whole:
            continue
        first = first_inside(start, whole, length)
        array = _taken(array, first + arange(length), axis)
    return array


def first_inside(start: TracedArray, whole: Dim, length: Any) -> TracedArray:
    """Returns the start of a slice, clamped so that the slice is in the axis."""
    known = as_dim(length)
    if isinstance(known, int) and isinstance(whole, int) and known > whole:
        raise _fail(f"expected a slice of at most {whole} elements, found {known}")
    return operand(smaller(larger(within(start, whole), 0), size(whole) - length))
