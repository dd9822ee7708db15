"""Functions on the parts and signs of numbers, and predicates of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.numpy.elementwise import (
    abs,
    bitwise_and,
    greater,
    isfinite,
    isinf,
    less,
    multiply,
    negative,
    real,
    right_shift,
    where,
)
from structir.numpy.reals import exp2, log2, logaddexp, trunc
from structir.tracing import dtypes
from structir.tracing.array import TracedArray, cast, operand
from structir.tracing.context import traced

INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@traced
def signbit(x: Any, /) -> TracedArray:
    """Returns whether the sign of a number is negative, also of -0.0."""
    array = operand(x)
    if dtypes.category(array.dtype_name) != dtypes.FLOAT:
        return less(array, 0)
    return less(where(array == 0, 1 / real(array), array), 0)


@traced
def copysign(x1: Any, x2: Any, /) -> TracedArray:
    """Returns the magnitude of the first with the sign of the second."""
    magnitude = abs(real(x1))
    return where(signbit(x2), negative(magnitude), magnitude)


@traced
def isneginf(x: Any, /) -> TracedArray:
    """Returns whether an element is negative infinity."""
    return isinf(x) & less(x, 0)


@traced
def isposinf(x: Any, /) -> TracedArray:
    """Returns whether an element is positive infinity."""
    return isinf(x) & greater(x, 0)


@traced
def isreal(x: Any, /) -> TracedArray:
    """Returns true for each element: there are no complex arrays."""
    array = operand(x)
    return (array == array) | True


@traced
def ldexp(x1: Any, x2: Any, /) -> TracedArray:
    """Returns x1 * 2**x2."""
    return real(x1) * exp2(cast(operand(x2), real(x1).dtype_name))


@traced
def modf(x: Any, /) -> tuple[TracedArray, TracedArray]:
    """Returns the fractional and the integral part, both with the sign of the number."""
    array = real(x)
    whole = trunc(array)
    return copysign(where(isinf(array), 0, array - whole), array), whole


@traced
def logaddexp2(x1: Any, x2: Any, /) -> TracedArray:
    """Returns log2(2**x1 + 2**x2); stable for large elements."""
    factor = float(np.log(2))
    return logaddexp(multiply(x1, factor), multiply(x2, factor)) / factor


@traced
def bitwise_count(x: Any, /) -> TracedArray:
    """Returns the number of ones in the binary form of the absolute value, as uint8."""
    array = operand(x)
    bits = INT_BITS.get(array.dtype_name)
    value = abs(array) if bits else array
    width = bits or int(np.dtype(array.dtype_name).itemsize * 8)
    total = cast(bitwise_and(value, 1), "uint8")
    for k in range(1, width):
        total = total + cast(bitwise_and(right_shift(value, k), 1), "uint8")
    return total


@traced
def frexp(x: Any, /) -> tuple[TracedArray, TracedArray]:
    """Returns mantissas in [0.5, 1) and exponents: x = mantissa * 2**exponent."""
    array = real(x)
    is_regular = isfinite(array) & (array != 0)
    magnitude = where(is_regular, abs(array), 1)
    exponent = trunc(log2(magnitude)) + 1
    exponent = where(magnitude < exp2(exponent - 1), exponent - 1, exponent)
    exponent = where(magnitude >= exp2(exponent), exponent + 1, exponent)
    mantissa = where(is_regular, array / exp2(exponent), array)
    return mantissa, where(is_regular, cast(exponent, "int32"), 0)
