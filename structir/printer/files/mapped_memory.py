"""Memory that files are mapped to, given back: it comes again from the file when it is read."""

from __future__ import annotations

import mmap
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")


def release_pages(data: Any) -> None:
    """Releases the pages of a read-only memory-mapped array."""
    held = data
    while isinstance(held, np.ndarray):
        held = held.base
    file: Any = held.obj if isinstance(held, memoryview) else held
    forget = getattr(mmap, "MADV_DONTNEED", None)
    if not isinstance(file, mmap.mmap) or forget is None:
        return
    if data.flags.writeable or not data.flags.c_contiguous:
        return
    first = data.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    start = first // mmap.PAGESIZE * mmap.PAGESIZE
    file.madvise(forget, start, first + data.nbytes - start)
