"""Compiles the kernels of a plan in parallel.

The calling thread translates one kernel after another to LLVM IR. LLVM compiles them in a thread
pool meanwhile, without the GIL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import attrs

from structir.backend.cores import physical_cores
from structir.backend.cpu.code_generation import PendingCode, pending_code
from structir.backend.cpu.kernels import (
    add_kernel,
    is_built,
    kernel,
    kernel_names,
    lock,
    symbol_of,
    translate_library,
)
from structir.backend.cpu.objects import code_key, load_cached, load_new_code, register_code
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.cpu.prepared import pending_kernel
from structir.backend.loops.writer import KernelText


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
        return pending_kernel(text.assembled, symbol)
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
