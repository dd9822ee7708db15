"""What is being compiled, shown on a terminal where it takes long."""

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

PATIENCE = 1.0  # seconds, before anything is shown


class Progress:
    """One compilation: how many kernels it has made, and the line that tells of it."""

    def __init__(self, what: str) -> None:
        self.what, self.kernels = what, 0
        self._start = time.perf_counter()
        self._line: Any = None

    def note(self, what: str) -> None:
        """A kernel is about to be made."""
        self.kernels += 1
        if time.perf_counter() - self._start < PATIENCE or not sys.stderr.isatty():
            return
        text = f"{self.what}: kernel {self.kernels}, {what}".replace("[", r"\[")
        if self._line is None:
            self._line = rich_status.Status(text, console=rich_console.Console(stderr=True))
            self._line.start()
        else:
            self._line.update(text)

    def stop(self) -> None:
        """Nothing is shown any more."""
        if self._line is not None:
            self._line.stop()


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def shown(what: str) -> Iterator[Progress]:
    """Tell of the kernels that are made inside."""
    progress = Progress(what)
    token = _current.set(progress)
    try:
        yield progress
    finally:
        _current.reset(token)
        progress.stop()


def note(what: str) -> None:
    """A kernel is about to be made for whoever is compiling."""
    progress = _current.get()
    if progress is not None:
        progress.note(what)
