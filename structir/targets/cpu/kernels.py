"""Compiles kernels to machine code; equal ones are compiled once per process.

The kernels of a plan are compiled in parallel: LLVM compiles them in threads, without the GIL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import attrs
import llvmlite.binding as llvm

import structir.targets.cpu.libc  # noqa: F401  (its symbols are those that cached code needs)
from structir.lazy import lazy_module
from structir.loops.program.kernel_text import KernelText, MissingCodeError
from structir.system.cache import digest
from structir.system.locks import new_lock
from structir.targets.cpu.code_generation import (
    Assembled,
    PendingCode,
    pending_kernel,
    submitted,
)
from structir.targets.cpu.objects import (
    Loaded,
    code_key,
    load_cached,
    load_new_code,
    load_or_build,
    register_code,
    require_symbol,
)
from structir.targets.cpu.point_kernels import PointKernel
from structir.targets.cpu.prepared import prepared
from structir.targets.cpu.threads import physical_cores

numba_code = lazy_module("structir.targets.cpu.routine_code")


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

DECLARED = re.compile(r'^declare .*?@"?(structir_\w+)', re.MULTILINE)
_kernels: dict[str, CompiledKernel] = {}  # by `code_key`
lock = new_lock()  # held while a kernel is built


def symbol_of(text: str) -> str:
    """Returns the symbol of a kernel, unique for its source."""
    return f"kernel_{digest(code_key(text))}"


def kernel(text: str, code_of: Callable[[], Assembled | PointKernel | None]) -> CompiledKernel:
    """Returns the compiled kernel with this source: a function of a table of addresses and sizes,
    and of a half-open range. `text` is only the key of the code, which is translated on demand:
    `code_of` is not called if the machine code is cached.

    A kernel that was read from a file has no code: raises MissingCodeError if its machine code is
    not cached.
    """
    with lock:
        compiled = _kernels.get(code_key(text))
        if compiled is None:
            start = time.perf_counter()
            loaded = load_cached(text) or _built(text, code_of())
            compiled = add_kernel(text, loaded, start)
        return compiled


def _built(text: str, code: Assembled | PointKernel | None) -> Loaded:
    """Compiles a kernel that could not be loaded."""
    start, symbol = time.perf_counter(), symbol_of(text)
    if code is None:
        raise MissingCodeError
    if isinstance(code, Assembled):
        pending = pending_kernel(code, symbol, prepared)
        machine_code = pending.machine_code(pending.generate(), time.perf_counter() - start)
        return register_code(text, load_new_code(machine_code))
    numba_code.ready_for_arrays()  # cached code may only have lacked symbols of numba
    return load_or_build(text, lambda: numba_code.routine_code(code, symbol))


def kernel_of(text: KernelText) -> CompiledKernel:
    """Returns a kernel of a plan, compiled."""
    return kernel(text.key, lambda: _code_of(text))


def _code_of(text: KernelText) -> Assembled | PointKernel | None:
    """Returns the LLVM IR of a kernel, or the call of a function that only numba compiles."""
    if text.code is not None:
        return text.code.assembled  # type: ignore[no-any-return]
    if text.function is None:
        return None
    return text.function.assembled or text.function  # type: ignore[no-any-return]


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
        self.needs: dict[str, None] = {}  # the functions that kernels declare

    def start(self, text: KernelText) -> None:
        """Starts the compilation of a kernel. Without an executor, or if only numba can compile it,
        compiles it synchronously."""
        with lock:
            if is_built(text.key) or code_key(text.key) in self.tasks:
                return
            start, cached = time.perf_counter(), load_cached(text.key)
            if cached is not None:
                add_kernel(text.key, cached, start)
                return
            code = _code_of(text)
            if self.executor is not None and isinstance(code, Assembled):
                self._start(text.key, code, self.executor)
                return
        kernel_of(text)

    def _start(self, text: str, assembled: Assembled, executor: ThreadPoolExecutor) -> None:
        start = time.perf_counter()
        pending = pending_kernel(assembled, symbol_of(text), prepared)
        self.needs |= dict.fromkeys(DECLARED.findall(assembled.text))
        self.tasks[code_key(text)] = _Task(
            text, pending, start, submitted(executor, pending.generate)
        )

    def finish(self) -> None:
        """Waits for all kernels and registers them in the process. The library functions that they
        call are built meanwhile."""
        with lock:
            for name in self.needs:
                require_symbol(name)
        for task in self.tasks.values():
            buffer = task.buffer.result()
            with lock:
                if not is_built(task.text):
                    self._add(task, buffer)

    def _add(self, task: _Task, buffer: Any) -> None:
        code = task.code.machine_code(buffer, time.perf_counter() - task.start)
        add_kernel(task.text, register_code(task.text, load_new_code(code)), task.start)


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
