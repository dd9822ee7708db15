"""Compiles kernel source to machine code; equal sources are compiled once per process.

The kernels of a plan are compiled in parallel: the calling thread translates one kernel after
another to LLVM IR. LLVM compiles them in a thread pool meanwhile, without the GIL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import llvmlite.binding as llvm
import numba
import numpy as np
from numba import njit, types

from structir.backend.cache import digest
from structir.backend.cpu.code_generation import (
    Assembled,
    PendingCode,
    pending_code,
    pending_kernel,
)
from structir.backend.cpu.functions import compiled_function, ready_for_arrays, reported
from structir.backend.cpu.intrinsics import (
    POINTERS,
    add_to,
    brain_bits,
    brain_value,
    ceil,
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
    code_key,
    code_of_library,
    load_cached,
    load_new_code,
    load_or_build,
    register_code,
)
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.pipeline import KernelCompiler, RoutineCompiler
from structir.backend.cpu.prepared import prepared
from structir.backend.cpu.registries import read_all
from structir.backend.cpu.routines import routine_helpers
from structir.backend.cpu.scalars import helpers
from structir.backend.cpu.translated import translate_kernel
from structir.backend.locks import new_lock
from structir.backend.loops.writer import KernelText, MissingCodeError
from structir.backend.threads import physical_cores
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
CONTRACTED = {"contract"}  # fused multiply-add is allowed
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
    "wide_vectors": wide_vectors,
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


@attrs.frozen(eq=False)
class CompiledKernel:
    """A compiled kernel: source, address, and compile time in seconds. `loaded` keeps the code
    alive."""

    text: str
    address: int
    seconds: float
    loaded: Loaded


# An unrolled row has dozens of accesses. By default LLVM does not vectorize loops that need more
# than 16 runtime checks.
llvm.set_option("structir", "-vectorize-scev-check-threshold=256")
# LLVM would unroll outer loops up to 24 times and vectorize each copy: code grows by a quarter and
# compile time doubles, without a speed-up.
llvm.set_option("structir", "-unroll-threshold=100")
# Kernels have one pointer per row, so that all accesses of a loop share an index. LLVM's loop
# strength reduction takes most of the code generation time and finds nothing better.
llvm.set_option("structir", "-disable-lsr")

_kernels: dict[str, CompiledKernel] = {}  # by `code_key`
lock = new_lock()  # held while a kernel is built


def symbol_of(text: str) -> str:
    """Returns the symbol of a kernel, unique for its source."""
    return f"kernel_{digest(code_key(text))}"


def kernel_names() -> dict[str, Any]:
    """Returns the values of the global names in kernel source."""
    return {**NAMES, **helpers(), **routine_helpers()}


def _built(text: str, routine: Callable[..., Any] | None, assembled: Assembled | None) -> Loaded:
    """Compiles a kernel."""
    start = time.perf_counter()
    if assembled is not None:
        pending = pending_kernel(assembled, symbol_of(text), prepared)
        return load_new_code(pending.machine_code(pending.generate(), time.perf_counter() - start))
    library, symbol = _library(text, kernel_names(), routine)
    address = library.get_pointer_to_function(symbol)
    code = code_of_library(library, [symbol], time.perf_counter() - start)
    return Loaded(code, (address,), library, from_disk=False)


def _raise_missing_code() -> Loaded:
    raise MissingCodeError


def _library(text: str, names: dict[str, Any], routine: Callable[..., Any] | None) -> Any:
    """Returns the code library of a kernel, and its symbol there."""
    symbol = symbol_of(text)
    if routine is not None:
        with reported(routine):
            names["routine"] = compiled_function(routine)
            return numba_library(text, symbol, names, arrays=True)
    with suppress(UntranslatedError):
        return translate_library(text, symbol, names), symbol
    return numba_library(text, symbol, names, arrays=False)


def translate_library(text: str, symbol: str, names: dict[str, Any]) -> Any:
    """Translates kernel source to LLVM IR without numba's compiler."""
    kinds = (TABLE, types.int64, types.int64)
    return translate_kernel(text, symbol, kinds, names)


def numba_library(text: str, symbol: str, names: dict[str, Any], arrays: bool) -> Any:
    """Compiles kernel source with numba's compiler; returns the library and the symbol.

    Needed for source that allocates arrays or that the translator does not support.
    """
    exec(compile(text, "<kernel>", "exec"), names)
    names["kernel"].__qualname__ = symbol
    compiler = RoutineCompiler if arrays else KernelCompiler
    options = {**OPTIONS, "_nrt": arrays, "pipeline_class": compiler}
    read_all()  # numba reads registries in parts, and an interrupt would lose one
    function = njit(SIGNATURE, fastmath=CONTRACTED, **options)(names["kernel"])
    compiled: list[Any] = list(function.overloads.values())
    return compiled[0].library, compiled[0].fndesc.llvm_func_name


def kernel(
    text: str,
    routine: Callable[..., Any] | None = None,
    from_file: bool = False,
    assembled: Assembled | None = None,
) -> CompiledKernel:
    """Returns the compiled kernel `kernel(a, lo, hi)` of this source: a table of addresses and
    sizes, and a half-open range. The source may call `routine`, whose own source it contains. If
    LLVM IR is `assembled`, `text` is only its key.

    Source that was read from a file is never compiled: raises MissingCodeError if its machine code
    is not cached.
    """
    with lock:
        compiled = _kernels.get(code_key(text))
        if compiled is None:
            start = time.perf_counter()
            if routine is not None:
                ready_for_arrays()
            build = _raise_missing_code if from_file else lambda: _built(text, routine, assembled)
            compiled = add_kernel(text, load_or_build(text, build), start)
        return compiled


def is_built(text: str) -> bool:
    """Whether a kernel has been compiled or loaded in this process."""
    return code_key(text) in _kernels


def add_kernel(text: str, loaded: Loaded, start: float) -> CompiledKernel:
    """Adds a kernel whose compilation began at `start`."""
    seconds = time.perf_counter() - start
    compiled = CompiledKernel(text, loaded.addresses[0], seconds, loaded)
    _kernels[code_key(text)] = compiled
    return compiled


def kernel_count() -> int:
    """Returns the number of distinct kernels that this process has compiled or loaded."""
    return len(_kernels)


@attrs.frozen(eq=False)
class _Task:
    """A kernel that is being compiled, with the start time of its translation."""

    text: str
    code: PendingCode
    start: float
    buffer: Future[Any]


class KernelsTogether:
    """Kernels that are being compiled, by an executor or, without one, by the caller."""

    def __init__(self, executor: ThreadPoolExecutor | None) -> None:
        self.executor = executor
        self.tasks: dict[str, _Task] = {}  # by `code_key`

    def start(self, text: KernelText) -> None:
        """Starts the compilation of a kernel. Without an executor, or if only numba can compile it,
        compiles it synchronously."""
        is_plain = text.function is None and not text.from_file
        with lock:
            if is_built(text.text) or code_key(text.text) in self.tasks:
                return
            if self.executor is not None and is_plain and self._start(text, self.executor):
                return
        kernel(text.text, text.function, text.from_file, text.assembled)

    def _start(self, kernel_text: KernelText, executor: ThreadPoolExecutor) -> bool:
        start, text = time.perf_counter(), kernel_text.text
        code = load_cached(text)
        if code is not None:
            add_kernel(text, code, start)
            return True
        try:
            pending = _pending(kernel_text, symbol_of(text))
        except UntranslatedError:
            return False
        self.tasks[code_key(text)] = _Task(
            text, pending, start, _submitted(executor, pending.generate)
        )
        return True

    def finish(self) -> None:
        """Waits for all kernels and registers them in the process."""
        for task in self.tasks.values():
            buffer = task.buffer.result()
            with lock:
                if not is_built(task.text):
                    self._add(task, buffer)

    def _add(self, task: _Task, buffer: Any) -> None:
        code = task.code.machine_code(buffer, time.perf_counter() - task.start)
        add_kernel(task.text, register_code(task.text, load_new_code(code)), task.start)


def _pending(text: KernelText, symbol: str) -> PendingCode:
    if text.assembled is not None:
        return pending_kernel(text.assembled, symbol, prepared)
    return pending_code(translate_library(text.text, symbol, kernel_names()), symbol)


def _submitted(executor: ThreadPoolExecutor, run: Callable[[], Any]) -> Future[Any]:
    """Submits a function to an executor; runs it synchronously during interpreter shutdown."""
    try:
        return executor.submit(run)
    except RuntimeError:  # executors reject work after the end of the main thread
        result = Future[Any]()
        result.set_result(run())
        return result


@contextmanager
def kernels_together() -> Iterator[KernelsTogether]:
    """Yields a compiler of kernels; all kernels started in this context are compiled at its end."""
    cores = physical_cores()
    if cores == 1:
        yield KernelsTogether(None)
        return
    executor = ThreadPoolExecutor(cores, "structir-compile")
    try:
        kernels = KernelsTogether(executor)
        yield kernels
        kernels.finish()
    finally:
        executor.shutdown(cancel_futures=True)
