"""Releases the physical memory of memory-mapped files; the next access reads the file again."""

from __future__ import annotations

import mmap
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")


def release_pages(data: Any) -> None:
    """Releases the pages of a read-only memory-mapped array."""
    owner = data
    while isinstance(owner, np.ndarray):
        owner = owner.base
    file: Any = owner.obj if isinstance(owner, memoryview) else owner
    advice = getattr(mmap, "MADV_DONTNEED", None)
    if not isinstance(file, mmap.mmap) or advice is None:
        return
    if data.flags.writeable or not data.flags.c_contiguous:
        return
    offset = data.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
    start = offset // mmap.PAGESIZE * mmap.PAGESIZE
    file.madvise(advice, start, offset + data.nbytes - start)
