"""Operations on bits and representations of numbers, and hints of JAX."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.ir.dtype import numpy_dtype
from structir.ir.expr import ShapeExpr
from structir.lax.checks import invalid, sequence
from structir.numpy import creation, elementwise, floats, indexing, reals, reductions, shaping
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, numpy_name, operand
from structir.tracing.context import traced

UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
SIGNED = {unsigned: signed for signed, unsigned in UNSIGNED.items()}
BITS = {"float64": (11, 52), "float32": (8, 23), "bfloat16": (8, 7), "float16": (5, 10)}
is_finite, shift_left = elementwise.isfinite, elementwise.left_shift
acosh, asinh, atanh = reals.arccosh, reals.arcsinh, reals.arctanh
tile, stack, unstack = shaping.tile, shaping.stack, shaping.unstack
broadcast_shapes, empty = shaping.broadcast_shapes, creation.zeros
__all__ = [
    *("Precision", "acosh", "asinh", "atanh", "broadcast_shapes", "empty", "is_finite"),
    *("shift_left", "stack", "tile", "unstack"),
]


class Precision(enum.Enum):
    """The precision of products; a hint without effect: products are computed in their dtype."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@traced
def bitcast_convert_type(operand_: Any, new_dtype: Any) -> TracedArray:
    """Returns the bits of an array as elements of another dtype.

    A narrower dtype adds a last axis, of the parts of each element; a wider one removes the last
    axis. Raises DiagnosticError if that axis has another size.
    """
    array = operand(operand_)
    name, dims = numpy_name(new_dtype), array.dims
    old, new = (numpy_dtype(dtype).itemsize for dtype in (array.dtype_name, name))
    if name == array.dtype_name:
        return array
    if old > new:
        dims = (*dims, old // new)
    elif old < new:
        if not dims or dims[-1] != new // old:
            message = f"bitcast_convert_type: expected a last axis of size {new // old}"
            raise invalid(f"{message}, found the shape {dims}")
        dims = dims[:-1]
    return emit(R.memory.view(expression(array), shape=ShapeExpr(dims), dtype=name))


@traced
def population_count(x: Any) -> TracedArray:
    """Returns the number of ones in the binary form of an integer, in its dtype."""
    array = operand(x)
    unsigned = UNSIGNED.get(array.dtype_name, array.dtype_name)
    bits = array if unsigned == array.dtype_name else bitcast_convert_type(array, unsigned)
    return cast(floats.bitwise_count(bits), array.dtype_name)


@traced
def shift_right_logical(x: Any, y: Any) -> TracedArray:
    """Returns bits shifted to the right, with zeros on the left."""
    return _shifted_as(UNSIGNED, x, y)


@traced
def shift_right_arithmetic(x: Any, y: Any) -> TracedArray:
    """Returns bits shifted to the right, with copies of the highest bit on the left."""
    return _shifted_as(SIGNED, x, y)


def _shifted_as(others: dict[str, str], x: Any, y: Any) -> TracedArray:
    """Returns bits shifted to the right as integers with or without a sign."""
    array = operand(x)
    other = others.get(array.dtype_name)
    if other is None:
        return elementwise.right_shift(array, y)
    counts = bitcast_convert_type(cast(operand(y), array.dtype_name), other)
    return bitcast_convert_type(
        elementwise.right_shift(bitcast_convert_type(array, other), counts), array.dtype_name
    )


@traced
def index_in_dim(operand_: Any, index: int, axis: int = 0, keepdims: bool = True) -> TracedArray:
    """Returns the slice at a known position of an axis."""
    array = operand(operand_)
    position = shaping.axis_of(axis, array.ndim)
    size = array.shape[position]
    if isinstance(size, int) and not -size <= index < size:
        raise invalid(f"index_in_dim: expected an index of an axis of size {size}, found {index}")
    row = indexing.take(array, index if index >= 0 else size + index, axis=position)
    return shaping.expand_dims(row, position) if keepdims else row


@traced
def split(operand_: Any, sizes: Sequence[int], axis: int = 0) -> list[TracedArray]:
    """Returns consecutive parts of an axis with these sizes.

    Raises DiagnosticError for sizes whose sum is another one than that of the axis, if it is known.
    """
    array, parts = operand(operand_), sequence(sizes, "split: sizes")
    position = shaping.axis_of(axis, array.ndim)
    total, whole = sum(parts), array.shape[position]
    is_other = isinstance(whole, int) and isinstance(total, int) and whole != total
    if is_other or any([isinstance(part, int) and part < 0 for part in parts]):
        raise invalid(f"split: expected sizes whose sum is {whole}, found {tuple(parts)}")
    ends = list(itertools.accumulate(parts))
    return list(shaping.split(array, ends[:-1], position)) if ends else []


@traced
def optimization_barrier(operand_: Any) -> Any:
    """Returns the operand: a hint of JAX without effect."""
    return operand_


@traced
def reduce_precision(operand_: Any, exponent_bits: int, mantissa_bits: int) -> TracedArray:
    """Returns floats rounded to those with fewer bits, ties to even.

    Numbers beyond the range of the exponent become infinite, and those below it 0. The derivative
    is 1. Raises DiagnosticError for other dtypes, and without bits of the exponent.
    """
    array = operand(operand_)
    name = array.dtype_name
    if exponent_bits < 1 or mantissa_bits < 0 or name not in BITS:
        message = "reduce_precision: expected floats and at least one bit of the exponent"
        actual = f"{name} and {exponent_bits} and {mantissa_bits} bits"
        raise invalid(f"{message}, found {actual}")
    exponent, mantissa = BITS[name]
    if exponent_bits >= exponent and mantissa_bits >= mantissa:
        return array
    rounded = _with_fewer_bits(reductions.stop_gradient(array), exponent_bits, mantissa_bits)
    moved = array + reductions.stop_gradient(rounded - array)
    return elementwise.where(elementwise.isfinite(rounded), moved, rounded)


def _with_fewer_bits(x: TracedArray, exponent_bits: int, mantissa_bits: int) -> TracedArray:
    exponent, mantissa = BITS[x.dtype_name]
    kind = np.dtype(f"uint{exponent + mantissa + 1}")
    sign = 1 << (exponent + mantissa)
    bits = bitcast_convert_type(x, kind.name)
    dropped = mantissa - mantissa_bits
    if dropped > 0:
        odd = (bits >> kind.type(dropped)) & kind.type(1)
        bits = bits + (odd + kind.type((1 << (dropped - 1)) - 1))
        bits = bits & kind.type(2 * sign - (1 << dropped))
    middle, reach = (1 << (exponent - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    if exponent_bits < exponent:
        infinity = ((1 << exponent) - 1) << mantissa
        signs, size = bits & kind.type(sign), bits & kind.type(infinity)
        is_large = size > kind.type((middle + reach) << mantissa)
        is_small = size <= kind.type((middle - reach) << mantissa)
        bits = elementwise.where(is_small, signs, bits)
        bits = elementwise.where(is_large, signs | kind.type(infinity), bits)
    return elementwise.where(x != x, x, bitcast_convert_type(bits, x.dtype_name))
