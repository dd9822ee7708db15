"""Conversions of float8 dtypes in kernels: stored as bytes, computed in float32."""

from __future__ import annotations

from typing import Any

import attrs
import ml_dtypes
import numpy as np

from structir.targets.cpu.math.bits import bits_of_single
from structir.targets.cpu.math.options import Number


@attrs.frozen
class Format:
    """A float8 format.

    `fraction` is the number of fraction bits, `bias` the exponent bias. `greatest` encodes the
    largest finite number, `beyond` larger ones, `nan` NaN and `negative_zero` -0. `signed_nan`
    states whether NaN has a sign bit.
    """

    fraction: int
    bias: int
    greatest: int
    beyond: int
    nan: int
    signed_nan: bool = True
    negative_zero: int = 0x80


FORMATS = {
    "float8_e4m3fn": Format(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e5m2": Format(2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e4m3fnuz": Format(3, 8, 0x7F, 0x80, 0x80, False, 0),
    "float8_e5m2fnuz": Format(2, 16, 0x7F, 0x80, 0x80, False, 0),
}


def _value_of(dtype: str) -> Any:
    table = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, dtype)).astype(np.float32)

    def value(code: Number) -> Number:
        return table[code]

    return value


def _code_of(layout: Format) -> Any:
    """Returns the function that rounds a float32 to a code, to nearest even."""
    drop = 23 - layout.fraction
    lowest = 1 - layout.bias  # exponent of the smallest normal number
    greatest, beyond, nan = layout.greatest, layout.beyond, layout.nan
    rebias = (127 - layout.bias) << layout.fraction
    signed_nan, negative_zero = layout.signed_nan, layout.negative_zero

    def code(value: Number) -> Number:
        bits = bits_of_single(value)
        magnitude: Any = np.int64(bits & 0x7FFFFFFF)
        sign = 0x80 if bits < 0 else 0
        if magnitude > 0x7F800000:
            return np.uint8(nan | sign if signed_nan else nan)
        exponent = (magnitude >> 23) - 127
        gap: Any = max(lowest - exponent, 0)
        if gap > 0:
            magnitude = (magnitude & 0x7FFFFF) | (0x800000 if magnitude >> 23 else 0)
        shift = drop + min(gap, 25)
        rounded = (magnitude + (1 << (shift - 1)) - 1 + ((magnitude >> shift) & 1)) >> shift
        if gap == 0:
            rounded -= rebias
        if rounded > greatest:
            rounded = beyond
        if rounded == 0:
            return np.uint8(negative_zero if sign else 0)
        return np.uint8(rounded | sign)

    return code


def float8_helpers() -> dict[str, Any]:
    """Returns the conversions `<dtype>_value` and `<dtype>_code` that kernels call, by name."""
    values = {f"{dtype}_value": _value_of(dtype) for dtype in FORMATS}
    return values | {f"{dtype}_code": _code_of(layout) for dtype, layout in FORMATS.items()}
