"""The names in the sources of GPU kernels whose implementations are those of the CPU."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from structir.backend.cpu.intrinsics import (
    POINTERS,
    ceil,
    floor,
    half_bits,
    half_value,
    maximum,
    minimum,
    nearest,
    offset_by,
    trunc,
)
from structir.backend.cpu.scalars import helpers
from structir.backend.cuda.integer_functions import integer_functions
from structir.backend.cuda.intrinsics import (
    add_to,
    brain_bits,
    brain_value,
    greater,
    lesser,
    multiply_to,
    square_root,
    wrapping_add,
    wrapping_mul,
    wrapping_sub,
)
from structir.ir.kernel_functions import EIGHTHS

NAMES: dict[str, Any] = {
    "add_to": add_to,
    "multiply_to": multiply_to,
    "wrapping_add": wrapping_add,
    "wrapping_sub": wrapping_sub,
    "wrapping_mul": wrapping_mul,
    "greater": greater,
    "lesser": lesser,
    "maximum": maximum,
    "minimum": minimum,
    "square_root": square_root,
    "floor": floor,
    "ceil": ceil,
    "trunc": trunc,
    "nearest": nearest,
    "half_value": half_value,
    "half_bits": half_bits,
    "brain_value": brain_value,
    "brain_bits": brain_bits,
    "offset_by": offset_by,
    "array_at": numba.carray,  # type: ignore[attr-defined]
    "inf": np.inf,
    "nan": np.nan,
    **{f"{dtype}_pointer": pointer for dtype, pointer in POINTERS.items()},
    **{
        dtype: getattr(np, dtype)
        for dtype in POINTERS
        if dtype not in ("bool", "bfloat16", *EIGHTHS)
    },
}


def kernel_names() -> dict[str, Any]:
    """Returns the implementations by name."""
    return {**NAMES, **helpers(), **integer_functions()}
