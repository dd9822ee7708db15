"""Arrays joined, split, extended, and with rows inserted or removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.expr import Constant
from structir.ir.struct_info import MAX_RANK
from structir.numpy.creation import arange, asarray, broadcast, diag, zeros
from structir.numpy.elementwise import where
from structir.numpy.indexing import take
from structir.numpy.shaping import (
    atleast_1d,
    axis_of,
    concatenate,
    expand_dims,
    ravel,
    reshape,
    split,
)
from structir.tracing import dtypes
from structir.tracing.array import (
    TracedArray,
    cast,
    equally_long,
    expression,
    of_rank,
    operand,
)
from structir.tracing.context import traced


@traced
def atleast_3d(*arrays: Any) -> Any:
    """Returns arrays with at least three axes: of a vector (1, n, 1), of a matrix (m, n, 1)."""
    results = []
    for array in map(operand, arrays):
        shape = {0: (1, 1, 1), 1: (1, *array.shape, 1), 2: (*array.shape, 1)}.get(array.ndim)
        results.append(array if shape is None else reshape(array, shape))
    return results[0] if len(results) == 1 else results


@traced
def dstack(tup: Sequence[Any]) -> TracedArray:
    """Joins arrays along axis 2."""
    return concatenate([atleast_3d(array) for array in tup], axis=2)


@traced
def hsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Splits along axis 1, of a vector along axis 0."""
    array = of_rank(ary, "hsplit: ary", 1, MAX_RANK)
    return list(split(array, indices_or_sections, axis=min(array.ndim - 1, 1)))


@traced
def vsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Splits along axis 0."""
    return list(split(ary, indices_or_sections, axis=0))


@traced
def dsplit(ary: Any, indices_or_sections: Any) -> list[TracedArray]:
    """Splits along axis 2."""
    return list(split(ary, indices_or_sections, axis=2))


@traced
def block(arrays: Any) -> TracedArray:
    """Joins nested lists of arrays: the innermost along the last axis, the next before it."""

    def depth(value: Any) -> int:
        return 1 + max(map(depth, value)) if isinstance(value, list) else 0

    def joined(value: Any, level: int) -> TracedArray:
        if not isinstance(value, list):
            array = operand(value)
            missing = levels - array.ndim
            return reshape(array, (*[1] * max(missing, 0), *array.shape))
        return concatenate([joined(part, level - 1) for part in value], axis=-level)

    levels = depth(arrays)
    return joined(arrays, levels)


@traced
def delete(arr: Any, obj: Any, axis: int | None = None) -> TracedArray:
    """Returns an array without the rows at known positions: an int, a slice or a list of them."""
    array = ravel(arr) if axis is None else operand(arr)
    along = axis_of(axis or 0, array.ndim)
    count = int(array.shape[along])
    try:
        kept = np.delete(np.arange(count), _known_positions(obj))
    except (IndexError, ValueError) as error:
        message = f"delete: obj: expected positions below {count}, found {obj}"
        raise DiagnosticError(Diagnostic(message, code="E1107")) from error
    return take(array, kept.astype("int32"), axis=along)


def _known_positions(obj: Any) -> Any:
    """Returns positions that are constants. Raises DiagnosticError for an array of the program."""
    if isinstance(obj, TracedArray):
        value = expression(obj)
        if isinstance(value, Constant):
            return np.asarray(value.data)
        message = f"expected known positions, found {obj.aval}"
        hint = "select rows with `where`, or pass a NumPy array"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1105"))
    return np.asarray(obj) if isinstance(obj, list | tuple) else obj


@traced
def insert(arr: Any, obj: int, values: Any, axis: int | None = None) -> TracedArray:
    """Returns an array with values inserted before a known position."""
    array = ravel(arr) if axis is None else operand(arr)
    along = axis_of(axis or 0, array.ndim)
    position = obj if obj >= 0 else int(array.shape[along]) + obj
    new = cast(operand(values), array.dtype_name)
    shape = [*array.shape]
    shape[along] = 1 if new.ndim < array.ndim else new.shape[along]
    if new.ndim == array.ndim - 1 and new.ndim:
        new = expand_dims(new, along)
    if axis is None and new.ndim == 1:
        shape[0] = new.shape[0]
    before, after = split(array, [position], axis=along)
    return concatenate([before, broadcast(new, tuple(shape)), after], axis=along)


@traced
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> TracedArray:
    """Returns the differences of consecutive elements, with values before and after them."""
    array = ravel(ary)
    parts = [array[1:] - array[:-1]]
    if to_begin is not None:
        parts.insert(0, cast(ravel(asarray(to_begin)), array.dtype_name))
    if to_end is not None:
        parts.append(cast(ravel(asarray(to_end)), array.dtype_name))
    return concatenate(parts)


@traced
def diagflat(v: Any, k: int = 0) -> TracedArray:
    """Returns a matrix with the elements on a diagonal."""
    return diag(ravel(v), k)


@traced
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = False) -> TracedArray:
    """Returns a matrix with another diagonal; arrays do not change in place.

    With `wrap`, the diagonal of a tall matrix begins again below each square.
    """
    if inplace:
        raise DiagnosticError(
            Diagnostic("fill_diagonal: arrays do not change", hint="inplace=False", code="E1107")
        )
    array = of_rank(a, "fill_diagonal: a", 2)
    rows, columns = arange(array.shape[-2])[:, None], arange(array.shape[-1])[None, :]
    value = operand(val)
    if value.ndim == 1:
        value = value[:, None]
    if wrap:
        rows = rows % (array.shape[-1] + 1)
    return where(rows == columns, cast(value, array.dtype_name), array)


@traced
def diag_indices_from(arr: Any) -> tuple[TracedArray, ...]:
    """Returns the positions of the diagonal."""
    array = of_rank(arr, "diag_indices_from: arr", 2, MAX_RANK)
    return (arange(array.shape[0]),) * array.ndim


def _positions_of(vector: TracedArray) -> TracedArray:
    """Returns positions, those of the true elements of a mask, whose elements are known."""
    if vector.dtype_name != "bool":
        return vector
    return operand(np.flatnonzero(_known_positions(vector)).astype("int32"))


@traced
def ix_(*args: Any) -> tuple[TracedArray, ...]:
    """Returns index vectors that broadcast to all combinations."""
    vectors = [_positions_of(of_rank(atleast_1d(arg), "ix_", 1)) for arg in args]
    count = len(vectors)
    return tuple(
        [reshape(v, (*[1] * k, -1, *[1] * (count - 1 - k))) for k, v in enumerate(vectors)]
    )


@traced
def unravel_index(indices: Any, shape: Sequence[Any]) -> tuple[TracedArray, ...]:
    """Returns the positions along each axis of row-major linear indices."""
    rest, positions = operand(indices), list[TracedArray]()
    if dtypes.category(rest.dtype_name) == dtypes.FLOAT:
        message = f"unravel_index: indices: expected integers, found {rest.dtype_name}"
        hint = "convert them: `indices.astype(int)`"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1107"))
    for size in reversed(tuple(shape)):
        positions.insert(0, rest % size)
        rest = rest // size
    return tuple(positions)


@traced
def ravel_multi_index(
    multi_index: Sequence[Any], dims: Sequence[Any], mode: str = "clip"
) -> TracedArray:
    """Returns the row-major linear indices of positions along each axis; `mode` is clip or wrap."""
    total = operand(zeros((), "int32"))
    for position, size in equally_long("ravel_multi_index", multi_index, dims):
        index = operand(position)
        index = index % size if mode == "wrap" else index.clip(0, size - 1)
        total = total * size + index
    return total
