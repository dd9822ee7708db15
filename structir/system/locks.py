"""Locks that no forked process inherits as locked.

A thread that holds a lock while another one forks does not exist in the child process, where the
lock would remain locked. What these locks guard is consistent after each bytecode: memoized values
and tables that are extended or replaced.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


def new_lock() -> threading.Lock:
    """Returns a lock."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> Any:
    """Returns a reentrant lock."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _release_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)
