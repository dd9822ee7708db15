"""Interrupts while LLVM writes machine code: they wait until it is done.

LLVM hands its results to functions of Python, where an exception would be lost, and the code with
it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """What is done inside is done whole; an interrupt that came meanwhile is handled after it."""
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    met: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: met.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if met:
            before(*met[-1])
