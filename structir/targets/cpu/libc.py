"""Functions of C that compiled functions call, as symbols."""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import llvmlite.binding as llvm

from structir.targets.cpu.objects import symbol_builders

ALLOCATE, ALLOCATE_ZEROS, FREE = "structir_malloc", "structir_calloc", "structir_free"
# functions of one float64
FUNCTIONS: dict[Any, str] = {
    function: f"structir_{function.__name__}" for function in (math.exp, math.log)
}


def _register(symbol: str, name: str) -> None:
    """Defines a symbol: a function of the C library of the process."""
    library: Any = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    llvm.add_symbol(symbol, address)


def _builder(symbol: str) -> Callable[[], None]:
    return partial(_register, symbol, symbol.removeprefix("structir_"))


symbol_builders |= {s: _builder(s) for s in (ALLOCATE, ALLOCATE_ZEROS, FREE, *FUNCTIONS.values())}
