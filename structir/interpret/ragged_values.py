"""Ragged arrays at run time: arguments converted to them, and checked."""

from __future__ import annotations

from typing import Any

from structir.errors import ShapeMismatchError
from structir.interpret.row_binding import AxisEquation, mismatch
from structir.ir.axes import Ragged, RowVar, size_in
from structir.ir.dims import Dim
from structir.ir.dtype import numpy_dtype
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module

np = lazy_module("numpy")
Value = Any
Offsets = tuple[str, Any, str]  # the name of a ragged axis, its offsets, and the location


def ragged_position(info: TensorStructInfo) -> int | None:
    """Returns the position of the first ragged axis; None without one."""
    for position, axis in enumerate(info.axes or ()):
        if type(size_in(axis)) is Ragged:
            return position
    return None


def as_ragged(info: TensorStructInfo, value: Value) -> Value:
    """Converts nested lists, lists of arrays and object arrays to a ragged array."""
    position = ragged_position(info)
    is_objects = isinstance(value, np.ndarray) and value.dtype.hasobject
    if not position or not (isinstance(value, list) or is_objects):
        return value
    inner = len(info.axes or ()) - position - 1
    dtype = None if info.dtype is None else numpy_dtype(info.dtype)
    converted = RaggedArray.from_rows(value, dtype, position, inner)
    if len(converted.values):
        return converted
    sizes = [size_in(axis) for axis in (info.axes or ())[position + 1 :]]
    shape = [
        size if type(size) is int else own
        for size, own in zip(sizes, converted.values.shape[1:], strict=True)
    ]
    empty = np.zeros((0, *shape), converted.dtype)
    return RaggedArray(empty, converted.offsets, converted.leading)


def equations_of(
    info: TensorStructInfo, value: Value, where: str
) -> tuple[list[AxisEquation], Offsets | None]:
    """Returns the equations between declared and actual sizes, and the offsets of a named axis.

    Raises ShapeMismatchError for a value that is not ragged exactly where it is declared to be.
    """
    position = ragged_position(info)
    if not isinstance(value, RaggedArray):
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", "")
        actual = f"a {dtype} tensor of shape {shape}" if shape is not None else type(value).__name__
        hint = "pass a list of rows, or `structir.RaggedArray.from_padded(x, lengths)`"
        raise mismatch(where, f"a ragged axis {position}", f"{actual}\nhelp: {hint}", "E0733")
    if position is None:
        hint = f'declare axis {len(value.leading)} as ragged, `"*"`, or pass `x.to_padded()`'
        raise mismatch(where, "a dense tensor", f"a ragged one: {value!r}\nhelp: {hint}", "E0734")
    axes = info.axes or ()
    if any([type(axis) is RowVar for axis in axes]) or ragged_count(info) > 1:
        message = f"{where}: expected one ragged axis after axes of known number, found {info}"
        raise ShapeMismatchError(message, code="E0733")
    if position != len(value.leading) or len(axes) != value.ndim:
        raise mismatch(
            where, f"{len(axes)} axes, of which axis {position} is ragged", repr(value), "E0733"
        )
    equations = [
        AxisEquation(axis, size, f"{where}: axis {k}")
        for k, (axis, size) in enumerate(zip(map(size_in, axes), value.shape, strict=True))
        if size is not None and isinstance(axis, Dim)
    ]
    label = size_in(axes[position]).name
    return equations, (label, value.offsets, where) if label else None


def ragged_count(info: TensorStructInfo) -> int:
    """Returns the number of ragged axes."""
    return sum([type(size_in(axis)) is Ragged for axis in info.axes or ()])


def bind_offsets(found: list[Offsets], bindings: Any) -> None:
    """Binds the offsets of named ragged axes; raises ShapeMismatchError for unequal ones."""
    for label, offsets, where in found:
        bound, first = bindings.setdefault(Ragged(label), (offsets, where))
        if bound is offsets or np.array_equal(bound, offsets):
            continue
        expected = f"the offsets of the axis `*:{label}` of {first.rpartition(': ')[2]}"
        hint = "pass rows of equal lengths, or give the axes different names"
        raise mismatch(where, expected, f"other offsets\nhelp: {hint}", "E0732")
