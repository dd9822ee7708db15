"""Recycles the memory of large results: fresh memory costs more than filling it.

A result is a view of pooled memory. Any other view of that memory holds a reference to it, so its
reference count shows when it is free.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE = 1 << 24  # bytes from which the system maps fresh memory every time
MOST_KEPT = 1 << 28  # bytes in the pool, in use or not
# Results start at a page. Other arrays do so too, or start some bytes further on, where malloc puts
# large ones. A processor compares the address of a load with those of pending stores within a page
# only. A loop that reads a little behind its stores, counted so, waits for each of them.
ALIGNMENT = 4096
ROOMY = 4 / 3  # pooled memory may be this many times larger than requested

Array = NDArray[Any]


def is_large(size: int) -> bool:
    """Whether a result of this many bytes is pooled."""
    return COUNTED and size >= LARGE


class ResultMemory:
    """The pool, the oldest memory first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: list[Array] = []
        self._most = most
        self._lock = threading.Lock()

    def new(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Returns an uninitialized array."""
        found = np.dtype(dtype)
        size = found.itemsize
        for extent in shape:
            size *= extent
        if not is_large(size):
            return np.empty(shape, dtype)
        with self._lock:
            memory = self._memory(size + ALIGNMENT)
            return np.ndarray(shape, found, memory, -memory.ctypes.data % ALIGNMENT)

    def copy(self, array: Array) -> Array:
        """Returns a dense copy of an array."""
        if array.dtype.hasobject:
            return np.array(array, order="C")
        made = self.new(array.shape, array.dtype)
        made[...] = array
        return made

    def _memory(self, size: int) -> Array:
        kept = self._kept
        for k in range(len(kept)):
            if size <= kept[k].nbytes <= ROOMY * size and _references(kept, k) == UNUSED:
                return kept[k]
        made = np.empty(size, np.uint8)
        total = size + sum([memory.nbytes for memory in kept])
        while kept and total > self._most:
            total -= kept[0].nbytes
            del kept[0]
        if size <= self._most:
            kept.append(made)
        return made


def _references(kept: list[Array], k: int) -> int:
    return sys.getrefcount(kept[k])


def _are_counted() -> bool:
    """Whether reference counts are exact and owned by one thread at a time."""
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


COUNTED = _are_counted()
UNUSED = _references([np.empty(1, np.uint8)], 0) if COUNTED else 0
RESULTS = ResultMemory()
