"""Converts arrays between dtypes, with defined results for NaN and out-of-range values."""

from __future__ import annotations

from typing import Any

from structir.ir.dtype import SIGNED, SMALL_INTS, dtype_of, is_float, is_int, numpy_dtype
from structir.lazy import lazy_module

np = lazy_module("numpy")

Array = Any  # a NumPy array of any dtype


def convert_dtype(values: Array, dtype: str) -> Array:
    """Returns the values in a dtype.

    Floats convert to integers by truncation, saturated to the range of the dtype; NaN becomes 0.
    Integers convert to narrower integers by keeping the low bits.
    """
    source = dtype_of(values)
    if source == dtype:
        return values
    if not (is_float(source) and is_int(dtype)):
        if source in SMALL_INTS:  # there is no direct cast between some small dtypes
            values = values.astype("int8")
        elif is_float(dtype) and values.dtype.itemsize == 1:
            values = values.astype("float32")
        return values.astype(numpy_dtype(dtype))
    low, end = limits(dtype)
    wide = values.astype("float64")
    target = numpy_dtype(dtype if dtype not in SMALL_INTS else "int8")
    result = np.where((wide > low) & (wide < end), wide, 0).astype(target)
    np.copyto(result, low, where=wide <= low)
    np.copyto(result, end - 1, where=wide >= end)
    return result.astype(numpy_dtype(dtype), copy=False)


def limits(dtype: str) -> tuple[int, int]:
    """Returns the least value of an integer dtype, and the exclusive upper bound."""
    bits = int(dtype.lstrip("uint"))
    return (-(2 ** (bits - 1)), 2 ** (bits - 1)) if dtype in SIGNED else (0, 2**bits)
