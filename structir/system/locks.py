"""Locks that no forked process inherits as locked, and cached properties without a lock.

A thread that holds a lock while another one forks does not exist in the child process, where the
lock would remain locked. What these locks guard is consistent after each bytecode: memoized values
and tables that are extended or replaced.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING, Any
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


if TYPE_CHECKING:
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):
        """A property whose value is computed once for each object, and stored in it.

        Before Python 3.12 `functools.cached_property` holds a lock of the class while it computes:
        a forked process would inherit it as locked, and two threads that each compute a property
        that needs the other's could wait for each other. Here threads may compute a value
        concurrently; all get the first that is stored.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            values = instance.__dict__
            if self.attrname in values:
                return values[self.attrname]
            return values.setdefault(self.attrname, self.func(instance))


def _release_all() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)
