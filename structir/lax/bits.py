"""Operations on bits and representations of numbers, and hints of JAX."""

from __future__ import annotations

import enum
from typing import Any

from structir.numpy import creation, floats, reals, shaping
from structir.numpy.elementwise import isfinite, left_shift, right_shift
from structir.numpy.indexing import take
from structir.script import R
from structir.tracing.array import TracedArray, cast, emit, expression, numpy_name, operand
from structir.tracing.context import traced

UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
is_finite, shift_left, shift_right_arithmetic = isfinite, left_shift, right_shift
acosh, asinh, atanh = reals.arccosh, reals.arcsinh, reals.arctanh
tile, split, stack, unstack = shaping.tile, shaping.split, shaping.stack, shaping.unstack
broadcast_shapes, empty = shaping.broadcast_shapes, creation.zeros
__all__ = [
    *("Precision", "acosh", "asinh", "atanh", "broadcast_shapes", "empty", "is_finite"),
    *("shift_left", "shift_right_arithmetic", "split", "stack", "tile", "unstack"),
]


class Precision(enum.Enum):
    """The precision of products; a hint without effect: products are computed in their dtype."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@traced
def bitcast_convert_type(operand_: Any, new_dtype: Any) -> TracedArray:
    """Returns the bits of an array as elements of another dtype of the same width."""
    array = operand(operand_)
    name = numpy_name(new_dtype)
    return array if name == array.dtype_name else emit(R.memory.view(expression(array), dtype=name))


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
    array = operand(x)
    unsigned = UNSIGNED.get(array.dtype_name)
    if unsigned is None:
        return right_shift(array, y)
    shifted = right_shift(bitcast_convert_type(array, unsigned), cast(operand(y), unsigned))
    return bitcast_convert_type(shifted, array.dtype_name)


@traced
def index_in_dim(operand_: Any, index: int, axis: int = 0, keepdims: bool = True) -> TracedArray:
    """Returns the slice at a known position of an axis."""
    array = operand(operand_)
    position = index if index >= 0 else array.shape[axis] + index
    row = take(array, position, axis=axis)
    return shaping.expand_dims(row, axis) if keepdims else row


@traced
def optimization_barrier(operand_: Any) -> Any:
    """Returns the operand: a hint of JAX without effect."""
    return operand_


@traced
def reduce_precision(operand_: Any, exponent_bits: int, mantissa_bits: int) -> TracedArray:
    """Returns numbers rounded to the precision of float16 (5, 10), bfloat16 (8, 7) or float32."""
    array = operand(operand_)
    name = {(5, 10): "float16", (8, 7): "bfloat16"}.get((exponent_bits, mantissa_bits))
    return array if name is None else cast(cast(array, name), array.dtype_name)
