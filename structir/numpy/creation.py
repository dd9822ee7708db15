"""Functions that create arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.dims import Dim, dim_max, dim_min
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Constant, PrimValue, ShapeExpr
from structir.ir.struct_info import MAX_RANK
from structir.lazy import lazy_module
from structir.numpy.elementwise import apply, real
from structir.numpy.elementwise import astype as convert
from structir.script import R
from structir.tracing.array import (
    TracedArray,
    as_array,
    cast,
    emit,
    expression,
    numpy_name,
    of_rank,
    operand,
)
from structir.tracing.context import fields, traced
from structir.tracing.size import as_dim, as_dims, is_size, size

np = lazy_module("numpy")


def dtype_or(dtype: Any, default: str) -> str:
    """Returns the name of a dtype, or the default for None."""
    return default if dtype is None else numpy_name(dtype)


@traced
def asarray(
    obj: Any, dtype: Any = None, *, order: Any = None, copy: Any = None, device: Any = None
) -> TracedArray:
    """Returns an array from numbers, nested lists or a NumPy array."""
    array = as_array(obj)
    if dtype is not None:
        return convert(array, dtype)
    return operand(array) if not array.weak else cast(operand(array), operand(array).dtype_name)


@traced
def array(
    object: Any, dtype: Any = None, copy: Any = True, order: Any = "K", ndmin: int = 0
) -> TracedArray:
    """Returns an array of at least `ndmin` axes from numbers, nested lists or a NumPy array."""
    values = asarray(object, dtype)
    missing = max(0, ndmin - values.ndim)
    return values.reshape((*[1] * missing, *values.shape)) if missing else values


@traced
def full(shape: Any, fill_value: Any, dtype: Any = None) -> TracedArray:
    """Returns an array of a shape with one value."""
    value = operand(fill_value) if dtype is None else convert(operand(fill_value), dtype)
    sizes = as_dims(shape)
    if value.ndim:
        return emit(R.broadcast_to(expression(value), ShapeExpr(sizes)))
    return emit(R.full(ShapeExpr(sizes), expression(value)))


@traced
def zeros(shape: Any, dtype: Any = None) -> TracedArray:
    """Returns zeros; float32 by default."""
    return emit(R.zeros(ShapeExpr(as_dims(shape)), dtype_or(dtype, "float32")))


@traced
def ones(shape: Any, dtype: Any = None) -> TracedArray:
    """Returns ones; float32 by default."""
    return emit(R.ones(ShapeExpr(as_dims(shape)), dtype_or(dtype, "float32")))


empty = zeros


@traced
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Returns an array like x with one value."""
    array = operand(x)
    sizes = array.shape if shape is None else shape
    return full(sizes, fill_value, dtype_or(dtype, array.dtype_name))


@traced
def zeros_like(x: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Returns zeros with the shape and the dtype of x."""
    return full_like(x, 0, dtype, shape)


@traced
def ones_like(x: Any, dtype: Any = None, shape: Any = None) -> TracedArray:
    """Returns ones with the shape and the dtype of x."""
    return full_like(x, 1, dtype, shape)


empty_like = zeros_like


@traced
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> TracedArray:
    """Returns numbers from `start` (0 by default) below `stop` at a distance of `step`."""
    if stop is None:
        start, stop = 0, start
    bounds = (start, stop, step)
    if all([isinstance(bound, int | float | np.generic) for bound in bounds]):
        data = np.arange(start, stop, step)
        kind = "float32" if data.dtype.kind == "f" else "int32"
        return TracedArray(Constant(data.astype(numpy_dtype(dtype_or(dtype, kind)))))
    if all([is_size(bound) for bound in bounds]):
        numbers = R.arange(*[PrimValue(as_dim(bound)) for bound in bounds], dtype="int64")
        return cast(emit(numbers), dtype_or(dtype, "int32"))
    raise TypeError("arange: expected sizes or numbers; scale `arange(n)` for other steps")


@traced
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Returns `num` evenly spaced numbers from `start` to `stop`, along a new axis."""
    steps = num - 1 if endpoint else num
    name = dtype_or(dtype, "float32")
    if all(isinstance(v, int | float | np.generic) for v in (start, stop, num)):
        data, step = np.linspace(start, stop, int(num), endpoint=endpoint, retstep=True)
        values = TracedArray(Constant(data.astype(numpy_dtype(name))))
        return (values, operand(float(step))) if retstep else values
    low, high = real(start), real(stop)
    width = high - low
    positions = arange(num, dtype=width.dtype_name)
    positions = positions.reshape(num, *[1] * width.ndim) if width.ndim else positions
    fraction = positions / size(dim_max(as_dim(steps), 1))
    values = low * (1 - fraction) + high * fraction  # exact at both ends
    values = _with_first_axis_at(values, axis)
    values = values if dtype is None else convert(values, name)
    return (values, width / steps) if retstep else values


def _with_first_axis_at(values: TracedArray, axis: int) -> TracedArray:
    position = axis % values.ndim
    order = [*range(1, position + 1), 0, *range(position + 1, values.ndim)]
    return values if not position else emit(R.permute_dims(expression(values), order))


@traced
def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> TracedArray:
    """Returns powers of `base` whose exponents are evenly spaced."""
    values: TracedArray = operand(base) ** linspace(start, stop, num, endpoint, axis=axis)
    return values if dtype is None else convert(values, dtype)


@traced
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> TracedArray:
    """Returns a matrix with ones on diagonal `k`."""
    rows = as_dim(N)
    columns: Dim = rows if M is None else as_dim(M)
    name = dtype_or(dtype, "float32")
    return emit(R.eye(PrimValue(rows), PrimValue(columns), PrimValue(k), dtype=name))


@traced
def identity(n: Any, dtype: Any = None) -> TracedArray:
    """Returns the identity matrix."""
    return eye(n, dtype=dtype)


@traced
def tril(x: Any, k: int = 0) -> TracedArray:
    """Returns the lower triangle: elements above diagonal `k` are zero."""
    return _triangle(R.tril, x, k)


@traced
def triu(x: Any, k: int = 0) -> TracedArray:
    """Returns the upper triangle: elements below diagonal `k` are zero."""
    return _triangle(R.triu, x, k)


def _triangle(op: Callable[..., Any], x: Any, k: Any) -> TracedArray:
    value = operand(x)
    if value.dtype_name == "bool":  # the op has no kernel of bools
        return convert(_triangle(op, convert(value, "int8"), k), bool)
    return emit(op(expression(value), PrimValue(as_dim(k))))


@traced
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> TracedArray:
    """Returns a matrix with ones on and below diagonal `k`."""
    return tril(ones((N, N if M is None else M), dtype), k)


@traced
def diag(v: Any, k: int = 0) -> TracedArray:
    """Returns a matrix with a diagonal, or the diagonal of a matrix."""
    array = of_rank(v, "diag: v", 1, 2)
    if array.ndim == 2:
        return diagonal(array, k)
    size = array.shape[0]
    side = size + (k if k >= 0 else -k)
    row, column = (max(-k, 0), max(k, 0))
    matrix = full((size, side), 0, array.dtype_name)
    positions = arange(size)
    hit = positions[:, None] + column == arange(side)[None, :]
    rows = apply(R.where, hit, broadcast(array[:, None], (size, side)), matrix)
    below = full((row, side), 0, array.dtype_name)
    above = full((side - size - row, side), 0, array.dtype_name)
    parts = [expression(part) for part in (below, rows, above) if part.dims[0] != 0]
    if not parts:
        return rows
    return emit(R.concat(parts, axis=0)) if len(parts) > 1 else TracedArray(parts[0])


def broadcast(x: TracedArray, shape: Any) -> TracedArray:
    """Returns an array with axes of size 1 repeated."""
    return emit(R.broadcast_to(expression(x), ShapeExpr(as_dims(shape))))


@traced
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """Returns a diagonal of two axes, which becomes the last axis."""
    array = of_rank(a, "diagonal: a", 2, MAX_RANK)
    rank = array.ndim
    first, second = axis1 % rank, axis2 % rank
    rest = [k for k in range(rank) if k not in (first, second)]
    x = emit(R.permute_dims(expression(array), [*rest, first, second]))
    rows, columns = x.dims[-2:]
    row, column = max(-offset, 0), max(offset, 0)
    length = dim_max(dim_min(rows - row, columns - column), 0)
    flat = x.reshape((*x.shape[:-2], size(rows * columns)))
    positions = arange(size(length)) * size(columns + 1) + size(columns * row + column)
    return emit(R.take(expression(flat), expression(positions), axis=rank - 2))


@traced
def meshgrid(*arrays: Any, indexing: str = "xy") -> list[TracedArray]:
    """Returns the coordinates of a grid, one array for each vector."""
    parts = [expression(operand(a)) for a in arrays]
    result = emit(R.meshgrid(parts, indexing=indexing))
    return [TracedArray(field) for field in fields(result.expr)]


@traced
def indices(dimensions: Any, dtype: Any = None) -> TracedArray:
    """Returns the indices of a grid: an array for each axis, stacked."""
    axes = [arange(size, dtype=dtype) for size in dimensions]
    return emit(R.stack([grid.expr for grid in meshgrid(*axes, indexing="ij")], axis=0))
