"""Reads memory-mapped files, and releases their physical memory; the next access reads the file
again."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")

CHUNK = 1 << 22  # bytes of a large array that are in memory at a time


def chunks(data: Any) -> Iterator[Any]:
    """Returns the bytes of an array in order, in chunks; releases the pages of each after use."""
    contents = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    for start in range(0, contents.size, CHUNK):
        chunk = contents[start : start + CHUNK]
        yield chunk
        release_pages(chunk)


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
