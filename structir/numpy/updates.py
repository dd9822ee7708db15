"""Functional updates: `x.at[index].set(values)`, and blocks replaced at run-time positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.numpy.creation import arange
from structir.numpy.elementwise import astype, multiply, where
from structir.numpy.elementwise import maximum as larger
from structir.numpy.elementwise import minimum as smaller
from structir.numpy.indexing import (
    checked_index,
    first_inside,
    getitem,
    is_mask,
    is_position,
    within,
)
from structir.numpy.shaping import (
    axis_of,
    broadcast_to,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    reshaped,
)
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, operand
from structir.tracing.context import traced
from structir.tracing.size import as_dim, size

HINTS = ("indices_are_sorted", "unique_indices")
Combine = Callable[[TracedArray, Any], TracedArray]
REDUCTIONS = {"set": "update", "add": "add", "multiply": "mul", "min": "min", "max": "max"}


@attrs.frozen
class IndexedUpdate:
    """`x.at[index]`: updates return a new array. Indices out of range are ignored."""

    array: TracedArray
    index: Any = ()

    def __getitem__(self, index: Any) -> IndexedUpdate:
        return IndexedUpdate(self.array, index)

    def get(self) -> TracedArray:
        """Returns the elements."""
        return getitem(self.array, self.index)

    def set(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with values at the index."""
        _check(hints)
        return updated(self.array, self.index, values, "set")

    def add(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with values added; repeated indices add up."""
        _check(hints)
        return updated(self.array, self.index, values, "add")

    def subtract(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with values subtracted."""
        _check(hints)
        return updated(self.array, self.index, -operand(values), "add")

    def multiply(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with elements multiplied by values."""
        _check(hints)
        return updated(self.array, self.index, values, "multiply")

    mul = multiply

    def divide(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with elements divided by values."""
        _check(hints)
        return updated(self.array, self.index, 1 / operand(values), "multiply")

    def min(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with the smaller of elements and values."""
        _check(hints)
        return updated(self.array, self.index, values, "min")

    def max(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with the larger of elements and values."""
        _check(hints)
        return updated(self.array, self.index, values, "max")

    def power(self, values: Any, **hints: bool) -> TracedArray:
        """Returns the array with elements raised to powers; indices must not repeat."""
        _check(hints)
        return self.set(self.get() ** operand(values))

    def apply(self, function: Callable[[TracedArray], Any], **hints: bool) -> TracedArray:
        """Returns the array with a function applied to elements; indices must not repeat."""
        _check(hints)
        return self.set(function(self.get()))


def _check(hints: dict[str, bool]) -> None:
    """Raises TypeError for a keyword that is no hint: the result does not depend on hints."""
    for name in hints:
        if name not in HINTS:
            raise TypeError(f"at: unexpected keyword argument {name!r}")


@traced
def at(x: Any) -> IndexedUpdate:
    """Returns `x.at`, whose index selects the elements of an update."""
    return IndexedUpdate(operand(x))


@traced
def updated(x: Any, index: Any, values: Any, operation: str) -> TracedArray:
    """Returns an array with the elements at an index updated."""
    array = operand(x)
    items = index if isinstance(index, tuple) else (index,)
    if len(items) == 1 and is_mask(items[0]) and isinstance(items[0], TracedArray):
        return _masked_update(array, items[0], values, operation)
    changes = cast(operand(values), array.dtype_name)
    if array.dtype_name == "bool":
        kept = updated(astype(array, "int8"), index, astype(changes, "int8"), operation)
        return astype(kept, bool)
    rows = _leading_positions(array, items)
    if rows is not None:
        return _updated_rows(array, rows, changes, operation)
    return _updated_elements(array, index, changes, operation)


def _masked_update(x: TracedArray, mask: TracedArray, values: Any, operation: str) -> TracedArray:
    """Updates where a mask is true; values broadcast to the array."""
    combine: dict[str, Combine] = {
        "set": lambda a, b: cast(operand(b), x.dtype_name),
        "add": lambda a, b: a + b,
        "multiply": multiply,
        "min": smaller,
        "max": larger,
    }
    for _ in range(x.ndim - mask.ndim):
        mask = expand_dims(mask, -1)
    return where(mask, combine[operation](x, values), x)


def _leading_positions(x: TracedArray, items: tuple[Any, ...]) -> TracedArray | None:
    """Returns the positions along axis 0 if the index is an integer or an array of these."""
    if len(items) != 1 or not x.ndim:
        return None
    (item,) = items
    if item is None or item is Ellipsis or isinstance(item, slice | bool) or is_mask(item):
        return None
    if not is_position(item):
        item = checked_index(item, x.dims[0])
        item = size(item) if not isinstance(item, int) else item
    return within(operand(item), x.dims[0])


def _updated_rows(
    x: TracedArray, rows: TracedArray, values: TracedArray, operation: str
) -> TracedArray:
    rest = x.shape[1:]
    values = broadcast_to(values, (*rows.shape, *rest))
    count = rows.ndim
    flat_rows = ravel(rows)
    flat_values = reshape(values, (flat_rows.shape[0], *rest)) if count != 1 else values
    positions = cast(reshape(flat_rows, (-1, 1)), "int64")
    call = R.scatter_nd(
        expression(x),
        expression(positions),
        expression(flat_values),
        reduction=REDUCTIONS[operation],
    )
    return emit(call)


def _updated_elements(
    x: TracedArray, index: Any, values: TracedArray, operation: str
) -> TracedArray:
    """Updates through the positions of the elements in row-major order."""
    total = x.size
    positions = getitem(reshape(arange(total, dtype="int64"), x.shape), index)
    flat_values = ravel(broadcast_to(values, positions.shape))
    call = R.scatter_elements(
        expression(ravel(x)),
        expression(ravel(positions)),
        expression(flat_values),
        axis=0,
        reduction=REDUCTIONS[operation],
    )
    return reshaped(emit(call), x.dims)


@traced
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int) -> TracedArray:
    """Returns the array with values at positions along an axis."""
    array, rows = operand(arr), operand(indices)
    changes = broadcast_to(cast(operand(values), array.dtype_name), rows.shape)
    position = axis_of(axis, array.ndim)
    call = R.scatter_elements(
        expression(array), expression(rows), expression(changes), axis=position
    )
    return emit(call)


def dynamic_update_slice(operand_: Any, update: Any, start_indices: Any) -> TracedArray:
    """Returns an array with a block replaced at a start known at run time; a negative start counts
    from the end, and the start is clamped."""
    array, block = operand(operand_), operand(update)
    whole_axes = [as_dim(b) == a for a, b in zip(array.dims, block.shape, strict=True)]
    moving = [k for k, whole in enumerate(whole_axes) if not whole]
    starts = [operand(s) for s in start_indices]
    block = cast(block, array.dtype_name)
    if len(moving) <= 1:
        axis = moving[0] if moving else 0
        if not moving:
            return block
        first = first_inside(starts[axis], array.dims[axis], block.shape[axis])
        rows = first + arange(block.shape[axis])
        moved = _updated_rows(moveaxis(array, axis, 0), rows, moveaxis(block, axis, 0), "set")
        return moveaxis(moved, 0, axis)
    index: list[Any] = []
    for axis in range(array.ndim):
        first = first_inside(starts[axis], array.dims[axis], block.shape[axis])
        rows = first + arange(block.shape[axis])
        index.append(reshape(rows, [-1 if k == axis else 1 for k in range(array.ndim)]))
    return _updated_elements(array, tuple(index), block, "set")
