"""Compile options of the math functions: IEEE semantics with contraction, without reordering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

Number = Any  # a float32, float64 or integer in compiled code
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}, "_nrt": False}
# They are never called from Python, and wrappers increase the compile time by half.
WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def vectorisable(function: Callable[..., Number]) -> Any:
    """Compiles a function for use in kernels; LLVM must be able to convert its branches to
    selects."""
    return njit(**OPTIONS, **WITHOUT_WRAPPERS)(function)
