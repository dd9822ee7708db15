"""Types, literals and attributes of StableHLO as MLIR text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from structir.ir.dims import Dim
from structir.ir.dtype import SMALL_INTS, UNSIGNED, dtype_of, int_bits, is_float

ELEMENT_TYPES = {
    "bool": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float4_e2m1fn": "f4E2M1FN",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
    "float8_e8m0fnu": "f8E8M0FNU",
}
LISTED = 16  # constants up to this number of elements are written as numbers, others as bytes


def element_type(dtype: str) -> str:
    """Returns the MLIR type of the elements of a dtype."""
    known = ELEMENT_TYPES.get(dtype)
    if known is not None:
        return known
    return f"{'ui' if dtype in UNSIGNED else 'i'}{int_bits(dtype)}"


def tensor_type(dims: Sequence[Dim], dtype: str) -> str:
    """Returns a tensor type; symbolic dims are `?`."""
    sizes = [str(d) if isinstance(d, int) else "?" for d in dims]
    return f"tensor<{'x'.join([*sizes, element_type(dtype)])}>"


@attrs.frozen
class HloTensor:
    """A value of the program: its name, dims and dtype."""

    name: str
    dims: tuple[Dim, ...]
    dtype: str

    @property
    def type(self) -> str:
        """The type in MLIR text."""
        return tensor_type(self.dims, self.dtype)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dims)


def literal(value: Any, dtype: str) -> str:
    """Returns a number of a dtype in MLIR text."""
    if dtype == "bool":
        return "true" if value else "false"
    if not is_float(dtype):
        return str(int(value))
    number = float(value)
    if not math.isfinite(number):
        return _bits_of(number, dtype)
    mantissa, exponent, power = repr(number).partition("e")
    point = "" if "." in mantissa else ".0"
    return f"{mantissa}{point}{exponent}{power}"


def _bits_of(number: float, dtype: str) -> str:
    """Returns an infinity or a NaN as the hexadecimal number of its bits."""
    width = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}[dtype]
    if dtype == "bfloat16":
        bits = int(np.float32(number).view("uint32")) >> 16
    else:
        bits = int(np.dtype(dtype).type(number).view(f"uint{width}"))
    return f"0x{bits:0{width // 4}X}"


def dense(array: Any) -> str:
    """Returns the elements of an array as a dense attribute without its type.

    Arrays of `bool`, and of dtypes narrower than a byte, are written as numbers.
    """
    dtype = dtype_of(array)
    if array.size == 0:
        return "dense<>"
    if array.size > LISTED and dtype != "bool" and dtype not in SMALL_INTS:
        data = np.asarray(array, order="C").tobytes()
        return f'dense<"0x{data.hex().upper()}">'
    first = array.reshape(-1)[0]
    if array.size > 1 and not is_float(dtype) and bool((array == first).all()):
        return f"dense<{literal(first, dtype)}>"
    return f"dense<{_nested(array, dtype)}>"


def _nested(array: Any, dtype: str) -> str:
    if array.ndim == 0:
        return literal(array.item(), dtype)
    return f"[{', '.join([_nested(row, dtype) for row in array])}]"


def integers(values: Sequence[int]) -> str:
    """Returns an attribute of 64-bit integers."""
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def integer(value: int) -> str:
    """Returns an attribute of one 64-bit integer."""
    return f"{value} : i64"


def identifier(text: str) -> str:
    """Returns a name in the characters that MLIR permits."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text) or "value"
    return f"_{name}" if name[0].isdigit() else name
