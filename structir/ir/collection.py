"""Pauses garbage collection while many acyclic objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 100_000  # objects, whose traversal takes tens of milliseconds
MOST_UNCHECKED = 3_000_000  # objects that no collection has traversed, before the next pause

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
