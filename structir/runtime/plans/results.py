"""Recycles the memory of large results: fresh memory costs more than filling it.

A result is a view of pooled memory. Any other view of that memory holds a reference to it, so its
reference count shows when it is free.
"""

from __future__ import annotations

import sys
import sysconfig
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structir.system.locks import new_lock

LARGE = 1 << 24  # bytes from which the system maps fresh memory every time
MAX_POOL_BYTES = 1 << 28  # bytes in the pool, in use or not
# Results are page-aligned; malloc places large arrays at a page boundary or some bytes after it.
# The processor compares a load with pending stores by their offset within a page (4K aliasing). A
# load at a slightly larger offset than a pending store would wait for the store.
ALIGNMENT = 4096
MAX_OVERSIZE = 4 / 3  # pooled memory may be this many times larger than requested

Array = NDArray[Any]


def is_large(size: int) -> bool:
    """Whether a result of this many bytes is pooled."""
    return COUNTED and size >= LARGE


class ResultMemory:
    """A pool of memory for large results, the oldest first."""

    def __init__(self, max_bytes: int = MAX_POOL_BYTES) -> None:
        self._pool: list[Array] = []
        self._max_bytes = max_bytes
        self._lock = new_lock()

    def new(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Returns an uninitialized array."""
        element_type = np.dtype(dtype)
        size = element_type.itemsize
        for extent in shape:
            size *= extent
        if not is_large(size):
            return np.empty(shape, dtype)
        with self._lock:
            memory = self._memory(size + ALIGNMENT)
            return np.ndarray(shape, element_type, memory, -memory.ctypes.data % ALIGNMENT)

    def copy(self, array: Array) -> Array:
        """Returns a dense copy of an array."""
        if array.dtype.hasobject:
            return np.array(array, order="C")
        result = self.new(array.shape, array.dtype)
        result[...] = array
        return result

    def _memory(self, size: int) -> Array:
        pool = self._pool
        for index in range(len(pool)):
            if (
                size <= pool[index].nbytes <= MAX_OVERSIZE * size
                and _references(pool, index) == UNUSED
            ):
                return pool[index]
        memory = np.empty(size, np.uint8)
        total = size + sum([block.nbytes for block in pool])
        while pool and total > self._max_bytes:
            total -= pool[0].nbytes
            del pool[0]
        if size <= self._max_bytes:
            pool.append(memory)
        return memory


def _references(pool: list[Array], index: int) -> int:
    return sys.getrefcount(pool[index])


def _are_counted() -> bool:
    """Whether reference counts are exact and owned by one thread at a time."""
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


COUNTED = _are_counted()
UNUSED = _references([np.empty(1, np.uint8)], 0) if COUNTED else 0
RESULTS = ResultMemory()
