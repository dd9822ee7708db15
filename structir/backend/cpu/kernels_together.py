"""Builds the kernels of a plan on all cores.

Kernels are translated to LLVM's form one after another: that is Python code. LLVM compiles each of
them in another thread meanwhile.
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
    translated_library,
)
from structir.backend.cpu.objects import Loaded, add, loaded, stored
from structir.backend.cpu.operations import UntranslatedError
from structir.backend.loops.writer import KernelText
from structir.errors import StructIRError


@attrs.frozen(eq=False)
class _Task:
    """A kernel that a thread compiles: its text, and when its translation began."""

    text: str
    code: PendingCode
    start: float
    buffer: Future[Any]


class KernelsTogether:
    """Kernels that are being compiled."""

    def __init__(self, executor: ThreadPoolExecutor | None) -> None:
        self.executor = executor
        self.tasks: dict[str, _Task] = {}

    def start(self, text: KernelText) -> None:
        """Starts the compilation of a kernel; without threads, or where numba compiles it, builds
        it at once."""
        is_plain = text.function is None and not text.from_file
        with lock:
            if is_built(text.text) or text.text in self.tasks:
                return
            if self.executor is not None and is_plain and self._start(text.text, self.executor):
                return
        kernel(text.text, text.function, text.from_file)

    def _start(self, text: str, executor: ThreadPoolExecutor) -> bool:
        start = time.perf_counter()
        code = stored(text)
        if code is not None:
            add_kernel(text, code, start)
            return True
        symbol = symbol_of(text)
        try:
            library = translated_library(text, symbol, kernel_names())
        except UntranslatedError:
            return False
        pending = pending_code(library, symbol)
        self.tasks[text] = _Task(text, pending, start, _submitted(executor, pending.generate))
        return True

    def finish(self) -> None:
        """Waits for the kernels, and adds them to those of the process."""
        for task in self.tasks.values():
            buffer = task.buffer.result()
            with lock:
                if not is_built(task.text):
                    self._add(task, buffer)

    def _add(self, task: _Task, buffer: Any) -> None:
        code = task.code.machine_code(buffer, time.perf_counter() - task.start)
        kernel_code = loaded(code)
        if kernel_code is None:
            names = ", ".join(code.needs)
            raise StructIRError(f"machine code needs names that are not here: {names}")
        fresh = Loaded(code, kernel_code.addresses, kernel_code.owner, from_disk=False)
        add_kernel(task.text, add(task.text, fresh), task.start)


def _submitted(executor: ThreadPoolExecutor, run: Callable[[], Any]) -> Future[Any]:
    """Returns the result of a function that a thread runs, or this one while the process ends."""
    try:
        return executor.submit(run)
    except RuntimeError:  # executors start nothing after the end of the main thread
        result = Future[Any]()
        result.set_result(run())
        return result


@contextmanager
def kernels_together() -> Iterator[KernelsTogether]:
    """Kernels that are started in this context are built at its end."""
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
