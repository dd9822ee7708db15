"""Shows the progress of long compilations on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from structir.lazy import lazy_module

rich_status = lazy_module("rich.status")
rich_console = lazy_module("rich.console")

DELAY = 1.0  # seconds before the line appears


class Progress:
    """One compilation: the number of compiled kernels, and its line on the terminal."""

    def __init__(self, title: str) -> None:
        self.title, self.kernels = title, 0
        self._start = time.perf_counter()
        self._line: Any = None

    def note(self, kernel: str) -> None:
        """Records that a kernel is compiled next."""
        self.kernels += 1
        if time.perf_counter() - self._start < DELAY or not sys.stderr.isatty():
            return
        text = f"{self.title}: kernel {self.kernels}, {kernel}".replace("[", r"\[")
        if self._line is None:
            self._line = rich_status.Status(text, console=rich_console.Console(stderr=True))
            self._line.start()
        else:
            self._line.update(text)

    def stop(self) -> None:
        """Stops showing progress."""
        if self._line is not None:
            self._line.stop()


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def shown(title: str) -> Iterator[Progress]:
    """Shows progress of the kernels compiled in this context."""
    progress = Progress(title)
    token = _current.set(progress)
    try:
        yield progress
    finally:
        _current.reset(token)
        progress.stop()


def note(kernel: str) -> None:
    """Records that a kernel is compiled next, for the current compilation."""
    progress = _current.get()
    if progress is not None:
        progress.note(kernel)
