"""From the text of a kernel to the address of its machine code; equal texts are compiled once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import njit, types

from structir.backend.cache import digest
from structir.backend.cpu.blas import multiply_matrices
from structir.backend.cpu.functions import compiled_function, ready_for_arrays
from structir.backend.cpu.intrinsics import (
    POINTERS,
    add_to,
    brain_bits,
    brain_value,
    ceil,
    copy_run,
    floor,
    greater,
    half_bits,
    half_value,
    lesser,
    maximum,
    minimum,
    multiply_to,
    nearest,
    offset_by,
    square_root,
    trunc,
    wide_vectors,
    wrapping_add,
    wrapping_mul,
    wrapping_sub,
)
from structir.backend.cpu.objects import (
    Loaded,
    MachineCode,
    built,
    code_key,
    code_of_library,
    loaded,
)
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.pipeline import KernelCompiler
from structir.backend.cpu.prepared import Assembled, pending_kernel
from structir.backend.cpu.products import (
    multiply_packed,
    multiply_pixels,
    multiply_tiled,
    multiply_windows,
    pack_panels,
    turn_over,
)
from structir.backend.cpu.registries import read_all
from structir.backend.cpu.routines import routine_helpers
from structir.backend.cpu.row_totals import ROW_FUNCTIONS
from structir.backend.cpu.scalars import helpers
from structir.backend.cpu.translated import translated
from structir.backend.cpu.window_sums import sum_windows
from structir.backend.locks import new_lock
from structir.backend.loops.writer import MissingCodeError
from structir.backend.math.bits import single_of_bits
from structir.errors import StructIRError
from structir.ir.kernel_functions import EIGHTHS

TABLE: Any = types.CPointer(types.int64)  # type: ignore[no-untyped-call]
SIGNATURE = types.void(TABLE, types.int64, types.int64)
OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "nogil": True,
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
CONTRACTED = {"contract"}  # a product and a sum may be rounded once
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
    "copy_run": copy_run,
    "wide_vectors": wide_vectors,
    "multiply_matrices": multiply_matrices,
    "multiply_tiled": multiply_tiled,
    "array_at": numba.carray,  # type: ignore[attr-defined]
    "multiply_packed": multiply_packed,
    "multiply_windows": multiply_windows,
    "multiply_pixels": multiply_pixels,
    "pack_panels": pack_panels,
    "turn_over": turn_over,
    "sum_windows": sum_windows,
    "single_of_bits": single_of_bits,
    **ROW_FUNCTIONS,
    "inf": np.inf,
    "nan": np.nan,
    **{f"{dtype}_pointer": pointer for dtype, pointer in POINTERS.items()},
    **{
        dtype: getattr(np, dtype)
        for dtype in POINTERS
        if dtype not in ("bool", "bfloat16", *EIGHTHS)
    },
}


@attrs.frozen(eq=False)
class CompiledKernel:
    """A compiled text: where its code is, and what making it took. The result keeps the code
    alive."""

    text: str
    address: int
    seconds: float
    loaded: Loaded


# A row that is written out reads and writes dozens of places; LLVM gives up on vectors at 16 by
# itself, counting what it would have to check about each before the loop.
llvm.set_option("structir", "-vectorize-scev-check-threshold=256")
# Loops around loops are not to be written out 24 times, each with vectors of its own: it makes code
# a quarter larger, and twice as long to come to, that is no faster.
llvm.set_option("structir", "-unroll-threshold=100")
# Kernels begin each row of what they read with a pointer, so that a loop needs one index for all;
# LLVM's search for something better takes most of the time that machine code takes, and finds none.
llvm.set_option("structir", "-disable-lsr")

_kernels: dict[str, CompiledKernel] = {}  # by `code_key`
lock = new_lock()  # held while a kernel is built


def symbol_of(text: str) -> str:
    """Returns the symbol of a kernel, which is as unique as its text."""
    return f"kernel_{digest(code_key(text))}"


def kernel_names() -> dict[str, Any]:
    """Returns what the names in the texts of kernels refer to."""
    return {**NAMES, **helpers(), **routine_helpers()}


def _built(text: str, routine: Callable[..., Any] | None, assembled: Assembled | None) -> Loaded:
    """The text compiled."""
    start = time.perf_counter()
    if assembled is not None:
        pending = pending_kernel(assembled, symbol_of(text))
        return loaded_new(pending.machine_code(pending.generate(), time.perf_counter() - start))
    library, symbol = _library(text, kernel_names(), routine)
    address = library.get_pointer_to_function(symbol)
    code = code_of_library(library, [symbol], time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def loaded_new(code: MachineCode) -> Loaded:
    """Loads machine code that was just generated."""
    kernel_code = loaded(code)
    if kernel_code is None:
        raise StructIRError(f"machine code needs names that are not here: {', '.join(code.needs)}")
    return Loaded(code, kernel_code.addresses, kernel_code.owner, from_disk=False)


def _refused() -> Loaded:
    raise MissingCodeError


def _library(text: str, names: dict[str, Any], routine: Callable[..., Any] | None) -> Any:
    """What the text is compiled into, and the symbol."""
    symbol = symbol_of(text)
    if routine is None:
        with suppress(UntranslatedError):
            return translated_library(text, symbol, names), symbol
    else:
        names["routine"] = compiled_function(routine)
    return numba_library(text, symbol, names, routine is not None)


def translated_library(text: str, symbol: str, names: dict[str, Any]) -> Any:
    """The text brought into LLVM's form here."""
    kinds = (TABLE, types.int64, types.int64)
    return translated(text, symbol, kinds, names)


def numba_library(text: str, symbol: str, names: dict[str, Any], arrays: bool) -> Any:
    """The text compiled by all of numba, and its symbol: for texts that make arrays or say unusual
    things."""
    exec(compile(text, "<kernel>", "exec"), names)
    names["kernel"].__qualname__ = symbol
    options = {**OPTIONS, "_nrt": arrays}
    if not arrays:
        options["pipeline_class"] = KernelCompiler
    read_all()  # at once: numba reads registries in parts, and an interrupt would lose one
    function = njit(SIGNATURE, fastmath=CONTRACTED, **options)(names["kernel"])
    compiled: list[Any] = list(function.overloads.values())
    return compiled[0].library, compiled[0].fndesc.llvm_func_name


def kernel(
    text: str,
    routine: Callable[..., Any] | None = None,
    from_file: bool = False,
    assembled: Assembled | None = None,
) -> CompiledKernel:
    """The kernel `kernel(a, lo, hi)` of this text: addresses and sizes in `a`, a half-open
    range. Where the text calls `routine`, it is this function, whose source the text holds. Where
    LLVM IR is `assembled`, the text only names it.

    A text that was read from a file is not compiled: without machine code it is a MissingCodeError.
    """
    with lock:
        compiled = _kernels.get(code_key(text))
        if compiled is None:
            start = time.perf_counter()
            if routine is not None:
                ready_for_arrays()
            build = _refused if from_file else lambda: _built(text, routine, assembled)
            compiled = add_kernel(text, built(text, build), start)
        return compiled


def is_built(text: str) -> bool:
    """Whether the kernel of a text has been compiled or loaded."""
    return code_key(text) in _kernels


def add_kernel(text: str, loaded: Loaded, start: float) -> CompiledKernel:
    """Adds a kernel whose compilation began at `start`."""
    seconds = time.perf_counter() - start
    compiled = CompiledKernel(text, loaded.addresses[0], seconds, loaded)
    _kernels[code_key(text)] = compiled
    return compiled


def kernel_count() -> int:
    """How many distinct kernels this process has compiled or loaded."""
    return len(_kernels)
