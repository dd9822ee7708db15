"""LLVM's types of the dtypes of kernels, and its form of constants."""

from __future__ import annotations

import struct
from typing import Any

from structir.ir.dtype import is_float
from structir.ir.kernel_functions import EIGHTHS

TYPES = {"float32": "float", "float64": "double", "bool": "i1"}
TYPES |= {f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
STORED = {**TYPES, "bool": "i8", "float16": "i16", "bfloat16": "i16"}
STORED |= dict.fromkeys(EIGHTHS, "i8")
SUFFIXES = {"float": "f32", "double": "f64"}


def constant(value: Any, dtype: str) -> str:
    """Returns a constant of a dtype; floats are written as the bits of a double."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(value))
    wide = float(value)
    return f"0x{struct.pack('>d', rounded(wide) if dtype == 'float32' else wide).hex().upper()}"


def rounded(value: float) -> float:
    """Returns the float32 nearest to a double, as a double."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def bits_of(dtype: str) -> int:
    """Returns the number of bits of a value of a dtype."""
    return 1 if dtype == "bool" else int(dtype.lstrip("bfloatuin"))


def is_signed(dtype: str) -> bool:
    """Returns whether a dtype is one of signed integers."""
    return dtype.startswith("int")
