"""Interrupts (Ctrl-C, or termination of a long command) while modules load and programs are
compiled: none is lost, and none leaves a module or machine code half made.

Garbage collection, which interrupts work that creates many objects, is paused.
"""

from __future__ import annotations

import _thread
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MANY = 100_000  # objects, whose traversal takes tens of milliseconds
MOST_UNCHECKED = 3_000_000  # objects that no collection has traversed, before the next pause

DELAY = 0.01  # seconds until a lost interrupt is raised again: its callback has returned by then


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Completes the enclosed work; an interrupt that arrives meanwhile is handled after it.

    The work is a step that an exception would leave incomplete for the rest of the process: an
    import, a registry of numba, a callback of LLVM that stores machine code. The step is short, so
    that a user waits less than a second.
    """
    before: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    deferred: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: deferred.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if deferred:
            before(*deferred[-1])


@contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Handles SIGTERM as Ctrl-C within the block, also where Ctrl-C is ignored, as it is in
    background jobs of a shell."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        handler: Any = signal.getsignal(signal.SIGINT)  # that of `defer_interrupts`, within it
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def repeat_dropped_interrupts() -> Iterator[None]:
    """Raises an interrupt again that Python drops: one that arrives in a finalizer, in the callback
    of a weak reference, or in a C callback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = sys.unraisablehook

    def raise_again(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(DELAY, _interrupt_main_thread).start()
        else:
            before(unraisable)

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt_main_thread() -> None:
    """Interrupts the main thread, where possible also in a system call."""
    identity = threading.main_thread().ident
    if identity is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(identity, signal.SIGINT)
    else:
        _thread.interrupt_main()


_unchecked = 0
_are_frozen = False  # by other code, once seen: to count frozen objects takes a traversal


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disables garbage collection inside; nodes have no reference cycles to collect.

    Many new objects are old at once afterwards: the first collection would traverse all of them
    and find none to free.
    """
    if not gc.isenabled():
        yield
        return
    _collect_unchecked()
    gc.disable()
    try:
        yield
    finally:
        _make_old()
        gc.enable()


def _make_old() -> None:
    """Moves the young objects to the oldest generation, if they are many and none are frozen."""
    global _unchecked, _are_frozen
    count = gc.get_count()[0]
    if count < MANY or _are_frozen:
        return
    _are_frozen = gc.get_freeze_count() > 0
    if not _are_frozen:
        gc.freeze()
        gc.unfreeze()
        _unchecked += count


def _collect_unchecked() -> None:
    """Collects all garbage if many objects became old untraversed, which Python does not count."""
    global _unchecked
    if _unchecked >= MOST_UNCHECKED:
        _unchecked = 0
        gc.collect()
