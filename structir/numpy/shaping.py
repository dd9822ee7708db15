"""Functions that reshape, join, split and move the elements of arrays."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import PrimValue, ShapeExpr
from structir.lazy import exported
from structir.numpy.creation import broadcast
from structir.script import R
from structir.tracing import dtypes
from structir.tracing.array import (
    TracedArray,
    as_array,
    cast,
    emit,
    equally_long,
    expression,
    numpy_name,
    of_rank,
    operand,
    promoted,
)
from structir.tracing.context import STATE, session, traced
from structir.tracing.size import TracedSize, as_dim, as_dims, is_size
from structir.tracing.size import size as traced_size


def axis_of(axis: Any, rank: int, name: str = "axis") -> int:
    """Returns an axis from the front. Raises DiagnosticError if it is out of range."""
    if not isinstance(axis, int) and hasattr(axis, "__index__"):
        axis = axis.__index__()
    if not isinstance(axis, int) or not -rank <= axis < rank:
        message = f"{name}: expected an axis of an array of rank {rank}, found {axis}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    return axis % rank


def axes_of(axis: Any, rank: int, repeats: bool = False) -> list[int]:
    """Returns axes from the front; None is all axes.

    Raises DiagnosticError for an axis that occurs twice, unless there may be `repeats`.
    """
    if axis is None:
        return list(range(rank))
    items = axis if isinstance(axis, tuple | list) else (axis,)
    axes = [axis_of(item, rank) for item in items]
    if len(set(axes)) < len(axes) and not repeats:
        message = f"axis: expected different axes, found {tuple(items)}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    return axes


@traced
def reshape(x: Any, shape: Any = None, *more: Any, order: str = "C") -> TracedArray:
    """Returns the elements in another shape; one size may be -1."""
    array = operand(x)
    sizes = [s.dim if hasattr(s, "dim") else s for s in _sizes(shape, more)]
    if order == "F":
        reversed_shape = tuple([traced_size(d) for d in reversed(sizes)])
        return transpose(reshape(transpose(array), reversed_shape))
    return reshaped(array, tuple(sizes))


def _sizes(shape: Any, more: tuple[Any, ...]) -> list[Any]:
    if more or is_size(shape):
        return [shape, *more]
    return list(shape)


def reshaped(array: TracedArray, sizes: tuple[Any, ...]) -> TracedArray:
    """Returns an array with other sizes, one of which may be -1."""
    sizes = tuple([as_dim(s) for s in sizes])
    if sizes == array.dims:
        return array
    if builtins.any([type(s) is int and s == -1 for s in sizes]):
        total, rest = array.size, 1
        for s in sizes:
            rest = rest if type(s) is int and s == -1 else traced_size(s) * rest
        inferred = _quotient(as_dim(total), as_dim(rest))
        if inferred is not None:
            sizes = tuple([inferred if type(s) is int and s == -1 else s for s in sizes])
    _fix_unequal_counts(array, sizes)
    return emit(R.reshape(expression(array), ShapeExpr(sizes)), array.weak)


def _fix_unequal_counts(array: TracedArray, sizes: tuple[Dim, ...]) -> None:
    """Requires the values of sizes without which the numbers of elements are not proved equal.

    The program would be valid, but every element would be moved by its linear index.
    """
    if not session().fixes_sizes:
        return
    total, product = as_dim(array.size), prod(sizes)
    if dims.equal(product, total) is None:
        symbols = dims.syms(total) ^ dims.syms(product)
        quotients = [s for s in sizes if type(s) is dims.Poly and _has_quotient(s)]
        for s in (*array.dims, *quotients):
            if type(s) is dims.Poly and (dims.syms(s) & symbols or (quotients and s in quotients)):
                TracedSize(s).__index__()


def _has_quotient(dim: dims.Poly) -> bool:
    return builtins.any([type(a) is dims.Opaque for monomial in dim.terms for a in monomial])


def _quotient(total: Dim, rest: Dim) -> Dim | None:
    if type(rest) is int and rest == 0:
        return None
    exact = dims.exact_quotient(total, rest)
    return exact if exact is not None else None


@traced
def ravel(x: Any, order: str = "C") -> TracedArray:
    """Returns the elements as a vector."""
    return reshape(x, (-1,), order=order)


@traced
def flatten(x: Any, order: str = "C") -> TracedArray:
    """Returns the elements as a vector."""
    return reshape(x, (-1,), order=order)


@traced
def transpose(a: Any, axes: Any = None, *more: Any) -> TracedArray:
    """Returns the array with permuted axes; reversed by default."""
    array = operand(a)
    if more:
        axes = (axes, *more)
    order = list(range(array.ndim))[::-1] if axes is None else axes_of(axes, array.ndim)
    if order == list(range(array.ndim)):
        return array
    return emit(R.permute_dims(expression(array), order), array.weak)


permute_dims = transpose


@traced
def matrix_transpose(x: Any) -> TracedArray:
    """Returns the array with its last two axes exchanged."""
    return swapaxes(x, -1, -2)


@traced
def swapaxes(a: Any, axis1: int, axis2: int) -> TracedArray:
    """Returns the array with two axes exchanged."""
    array = operand(a)
    order = list(range(array.ndim))
    first, second = axis_of(axis1, array.ndim), axis_of(axis2, array.ndim)
    order[first], order[second] = second, first
    return transpose(array, order)


@traced
def moveaxis(a: Any, source: Any, destination: Any) -> TracedArray:
    """Returns the array with axes moved to other positions."""
    array = operand(a)
    sources, targets = axes_of(source, array.ndim), axes_of(destination, array.ndim)
    order = [k for k in range(array.ndim) if k not in sources]
    for target, origin in sorted(zip(targets, sources, strict=True)):
        order.insert(target, origin)
    return transpose(array, order)


@traced
def rollaxis(a: Any, axis: int, start: int = 0) -> TracedArray:
    """Returns the array with an axis moved before position `start`."""
    array = operand(a)
    first = axis_of(axis, array.ndim)
    return moveaxis(array, first, start - 1 if first < start else start)


@traced
def expand_dims(x: Any, axis: Any) -> TracedArray:
    """Returns the array with axes of size 1 inserted."""
    array = operand(x)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    positions = sorted(axes_of(axes, array.ndim + len(axes)))
    sizes = list(array.dims)
    for position in positions:
        sizes.insert(position, 1)
    return reshaped(array, tuple(sizes))


@traced
def squeeze(x: Any, axis: Any = None) -> TracedArray:
    """Returns the array without axes of size 1, all or those named."""
    array = operand(x)
    if axis is None:
        axes = [k for k, s in enumerate(array.dims) if type(s) is int and s == 1]
    else:
        axes = axes_of(axis, array.ndim)
    if not axes:
        return array
    return emit(R.squeeze(expression(array), axes), array.weak)


@traced
def broadcast_to(x: Any, shape: Any) -> TracedArray:
    """Returns the array with axes of size 1 repeated to a shape."""
    array, sizes = operand(x), as_dims(shape)
    return array if array.dims == sizes else broadcast(array, sizes)


@exported
def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """Returns the shape that shapes broadcast to."""
    shapes = tuple([(s,) if is_size(s) else tuple(s) for s in shapes])
    for sizes in shapes:
        if not builtins.all([is_size(s) and not getattr(s, "shape", ()) for s in sizes]):
            message = f"broadcast_shapes: expected tuples of sizes, found {sizes}"
            raise DiagnosticError(Diagnostic(message, code="E1107"))
    rank = builtins.max([len(shape) for shape in shapes], default=0)
    result: list[Any] = [1] * rank
    for shape in shapes:
        for k, s in enumerate(shape):
            position = rank - len(shape) + k
            if not (type(s) is int and s == 1):
                current = result[position]
                if not (type(current) is int and current == 1) and current != s:
                    message = f"shapes do not broadcast: {', '.join(map(str, shapes))}"
                    raise DiagnosticError(Diagnostic(message, code="E1107"))
                result[position] = s
    return tuple(result)


@traced
def broadcast_arrays(*arrays: Any) -> list[TracedArray]:
    """Returns the arrays with the shape that they broadcast to."""
    operands = [operand(a) for a in arrays]
    shape = broadcast_shapes(*[a.shape for a in operands])
    return [broadcast_to(a, shape) for a in operands]


@traced
def atleast_1d(*arrays: Any) -> Any:
    """Returns arrays with at least one axis."""
    results = [a if a.ndim else reshaped(a, (1,)) for a in map(operand, arrays)]
    return results[0] if len(results) == 1 else results


@traced
def atleast_2d(*arrays: Any) -> Any:
    """Returns arrays with at least two axes."""
    results = [a if a.ndim > 1 else expand_dims(atleast_1d(a), 0) for a in map(operand, arrays)]
    return results[0] if len(results) == 1 else results


# ---- joining and splitting


def _common(arrays: Any) -> list[Any]:
    items = [arrays[k] for k in range(len(arrays))] if hasattr(arrays, "aval") else list(arrays)
    if not items:
        raise DiagnosticError(Diagnostic("expected at least one array, found 0", code="E1104"))
    operands, _ = promoted(*items)
    return [expression(a) for a in operands]


@traced
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> TracedArray:
    """Returns arrays joined along an axis; None joins them as vectors."""
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    parts = _common(arrays)
    rank = as_array_rank(parts[0])
    result = emit(R.concat(parts, axis=axis_of(axis, rank))) if len(parts) > 1 else None
    value = TracedArray(parts[0]) if result is None else result
    return value if dtype is None else cast(value, dtype)


concat = concatenate


def as_array_rank(value: Any) -> int:
    """Returns the rank of an expression."""
    return TracedArray(value).ndim


@traced
def stack(arrays: Any, axis: int = 0, out: Any = None, dtype: Any = None) -> TracedArray:
    """Returns arrays stacked along a new axis."""
    parts = _common(arrays)
    position = axis_of(axis, as_array_rank(parts[0]) + 1)
    value = emit(R.stack(parts, axis=position))
    return value if dtype is None else cast(value, dtype)


@traced
def vstack(arrays: Any) -> TracedArray:
    """Returns arrays joined along axis 0; vectors become rows."""
    return concatenate([atleast_2d(a) for a in arrays], 0)


@traced
def hstack(arrays: Any) -> TracedArray:
    """Returns arrays joined along axis 1; vectors along axis 0."""
    parts = [atleast_1d(a) for a in arrays]
    return concatenate(parts, 0 if not parts or parts[0].ndim == 1 else 1)


@traced
def column_stack(arrays: Any) -> TracedArray:
    """Returns vectors as the columns of a matrix."""
    return concatenate(
        [operand(a) if operand(a).ndim > 1 else operand(a)[:, None] for a in arrays], 1
    )


@traced
def append(arr: Any, values: Any, axis: int | None = None) -> TracedArray:
    """Returns an array with values after it."""
    return concatenate([arr, values], axis)


@traced
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """Returns parts: a number of equal ones, or those between positions."""
    array = operand(ary)
    position = axis_of(axis, array.ndim)
    total = array.shape[position]
    if is_size(indices_or_sections):
        count = int(indices_or_sections)
        if count < 1 or total % count != 0:
            message = f"split: expected a multiple of {count} on axis {axis}, found {total}"
            raise DiagnosticError(Diagnostic(message, code="E1107"))
        bounds: list[Any] = [total // count * k for k in range(1, count)]
    else:
        bounds = list(indices_or_sections)
    edges = [0, *bounds, total]
    before = (slice(None),) * position
    return [array[(*before, slice(low, high))] for low, high in itertools.pairwise(edges)]


@traced
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    """Returns parts: a number of them whose sizes differ by at most 1, or those between
    positions."""
    array, bounds = operand(ary), indices_or_sections
    if is_size(bounds):
        count, total = int(bounds), array.shape[axis_of(axis, array.ndim)]
        sizes = [(total + count - 1 - k) // count for k in range(count - 1)]
        bounds = list(itertools.accumulate(sizes))
    return split(array, bounds, axis)


@traced
def unstack(x: Any, axis: int = 0) -> tuple[TracedArray, ...]:
    """Returns the slices along an axis of known size."""
    array = operand(x)
    return tuple(moveaxis(array, axis_of(axis, array.ndim), 0))


@traced
def repeat(a: Any, repeats: Any, axis: int | None = None) -> TracedArray:
    """Returns each element a number of times."""
    array = ravel(a) if axis is None else operand(a)
    position = axis_of(axis or 0, array.ndim)
    return emit(R.repeat(expression(array), PrimValue(as_dim(repeats)), axis=position))


@traced
def tile(a: Any, reps: Any) -> TracedArray:
    """Returns the array repeated along axes."""
    array, repeats = operand(a), as_dims(reps)
    counts: list[Dim] = [*[1] * (array.ndim - len(repeats)), *repeats]
    return emit(R.tile(expression(array), counts))


@traced
def flip(m: Any, axis: Any = None) -> TracedArray:
    """Returns the array with axes reversed."""
    array = operand(m)
    for position in axes_of(axis, array.ndim):
        array = emit(R.flip(expression(array), axis=position))
    return array


@traced
def fliplr(m: Any) -> TracedArray:
    """Returns the array with axis 1 reversed."""
    return flip(m, 1)


@traced
def flipud(m: Any) -> TracedArray:
    """Returns the array with axis 0 reversed."""
    return flip(m, 0)


@traced
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> TracedArray:
    """Returns the array turned by 90 degrees, k times."""
    array = operand(m)
    for _ in range(k % 4):
        array = flip(swapaxes(array, *axes), axes[0])
    return array


@traced
def roll(x: Any, shift: Any, axis: Any = None) -> TracedArray:
    """Returns the array with elements moved along axes; those at the end come first."""
    array = operand(x)
    if axis is None:
        return reshape(roll(ravel(array), shift, 0), array.shape)
    axes, shifts = _rolled_axes(axis, shift, array.ndim)
    if builtins.any([isinstance(s, TracedArray) for s in shifts]):
        for s, position in zip(shifts, axes, strict=True):
            length = array.shape[position]
            index = (_positions(length) - operand(s)) % length
            array = emit(R.take(expression(array), expression(index), axis=position))
        return array
    return emit(R.roll(expression(array), [as_dim(s) for s in shifts], axes))


def _rolled_axes(axis: Any, shift: Any, rank: int) -> tuple[list[int], list[Any]]:
    """Returns axes and their shifts, of which the shorter sequence is repeated if it has one."""
    axes = axes_of(axis, rank, repeats=True)
    if not isinstance(shift, tuple | list) and hasattr(shift, "dtype"):
        vector = of_rank(shift, "roll: shift", 0, 1)
        shift = [vector[k] for k in range(len(vector))] if vector.ndim else vector
    shifts = list(shift) if isinstance(shift, tuple | list) else [shift]
    count = builtins.max(len(axes), len(shifts))
    axes, shifts = ([*items] * (count if len(items) == 1 else 1) for items in (axes, shifts))
    equally_long("roll: shift and axis", shifts, axes)
    return axes, [of_rank(s, "roll: shift", 0) if hasattr(s, "dtype") else s for s in shifts]


def _positions(length: Any) -> TracedArray:
    return cast(emit(R.arange(0, PrimValue(as_dim(length)), 1, dtype="int64")), "int32")


@exported
def shape(x: Any) -> tuple[Any, ...]:
    """Returns the sizes of an array."""
    if hasattr(x, "shape"):
        return tuple(x.shape)
    return np.shape(x) if STATE.session is None else as_array(x).shape


@exported
def ndim(x: Any) -> int:
    """Returns the number of axes of an array."""
    return len(shape(x))


@exported
def size(x: Any, axis: int | None = None) -> Any:
    """Returns the number of elements, or the size of an axis."""
    sizes: Sequence[Any] = shape(x)
    if axis is not None:
        return sizes[axis_of(axis, len(sizes))]
    total: Any = 1
    for s in sizes:
        total = s * total
    return total


def _kind_of(value: Any) -> tuple[str, bool]:
    """Returns the dtype of an array, a number or a dtype, and whether it is weak."""
    if isinstance(value, type | str) or hasattr(value, "kind"):
        return numpy_name(value), False
    if isinstance(value, bool | int | float):
        return dtypes.python_dtype(value), not isinstance(value, bool)
    array = value if hasattr(value, "dtype") else np.asarray(value)
    return str(array.dtype), bool(getattr(array, "weak", False))


@exported
def result_type(*values: Any) -> Any:
    """Returns the dtype of the result of arrays and numbers."""
    pairs = [_kind_of(value) for value in values]
    result = pairs[0]
    for pair in pairs[1:]:
        result = dtypes.promote(result, pair)
    return numpy_dtype(result[0])
