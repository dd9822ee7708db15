"""Arrays between inaccessible pages."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE


def guarded(array: Any, at_end: bool) -> Any:
    """Returns a copy of an array with an inaccessible page before its pages and one behind them."""
    pages = max(-(-array.nbytes // PAGE), 1)
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = PAGE + (pages * PAGE - array.nbytes if at_end else 0)
    copy: Any = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    protect: Any = ctypes.CDLL(None).mprotect
    for page in (0, pages + 1):
        if protect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) != 0:
            raise OSError("mprotect failed")
    return copy
