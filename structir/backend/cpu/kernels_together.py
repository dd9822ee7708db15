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
from structir.backend.cpu.code_generation import PendingCode
from structir.backend.cpu.kernels import (
    add_kernel,
    is_built,
    kernel,
    load_new_code,
    lock,
    symbol_of,
)
from structir.backend.cpu.objects import code_key, load_cached, register_code
from structir.backend.cpu.prepared import Assembled, pending_kernel
from structir.backend.loops.kernel_text import KernelText


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
        with lock:
            if is_built(text.text) or code_key(text.text) in self.tasks:
                return
            if self.executor is not None and text.assembled is not None:
                self._start(text.text, text.assembled, self.executor)
                return
        kernel(text.text, text.assembled or text.function)

    def _start(self, text: str, assembled: Assembled, executor: ThreadPoolExecutor) -> None:
        start, code = time.perf_counter(), load_cached(text)
        if code is not None:
            add_kernel(text, code, start)
            return
        pending = pending_kernel(assembled, symbol_of(text))
        self.tasks[code_key(text)] = _Task(
            text, pending, start, _submitted(executor, pending.generate)
        )

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
