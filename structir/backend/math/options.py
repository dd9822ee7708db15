"""How the math functions are compiled: IEEE rules, fused multiply-add, nothing reordered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from structir.backend.cpu.pipeline import KernelCompiler

Number = Any  # a float32, float64 or integer, as the compiled code sees it
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}, "_nrt": False}
# Nobody calls them from Python, and a wrapper takes half as long again to compile.
WITHOUT_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def vectorisable(function: Callable[..., Number]) -> Any:
    """A function for use inside kernels, written without branches that LLVM could not flatten."""
    return njit(**OPTIONS, **WITHOUT_WRAPPERS, pipeline_class=KernelCompiler)(function)
