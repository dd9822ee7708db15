"""Assigns offsets in an arena; values with overlapping lifetimes do not overlap."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

Span = tuple[int, int]  # first and last step of a lifetime
MOST_COMPARED = 1024  # limit of the quadratic algorithm


def assign_offsets(spans: Sequence[Span], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Returns the offset of each value and the size of the arena.

    Up to MOST_COMPARED values are placed from the largest to the smallest, each in the lowest gap
    between values alive at the same time. More values are placed in the order of their definition,
    each in the smallest sufficient gap, in O(n log n) time.
    """
    if len(spans) > MOST_COMPARED:
        return _in_order(spans, sizes)
    offsets = [0] * len(spans)
    placed: list[tuple[int, int, Span]] = []
    for i in sorted(range(len(spans)), key=lambda i: -sizes[i]):
        (first, last), offset = spans[i], 0
        for start, end, other in placed:  # in order of offset
            if other[1] < first or last < other[0]:
                continue
            if offset + sizes[i] <= start:
                break
            offset = max(offset, end)
        offsets[i] = offset
        insort(placed, (offset, offset + sizes[i], spans[i]))
    return offsets, max((end for _, end, _ in placed), default=0)


def _in_order(spans: Sequence[Span], sizes: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(spans)
    gaps, living = _Gaps(), list[tuple[int, int]]()
    for i in sorted(range(len(spans)), key=lambda i: spans[i][0]):
        while living and living[0][0] < spans[i][0]:
            _, expired = heapq.heappop(living)
            gaps.release(offsets[expired], sizes[expired])
        offsets[i] = gaps.allocate(sizes[i])
        heapq.heappush(living, (spans[i][1], i))
    return offsets, gaps.end


class _Gaps:
    """The free gaps of an arena, which grows where no gap is large enough."""

    def __init__(self) -> None:
        self.end = 0
        self.by_size: list[tuple[int, int]] = []  # size and start, the smallest first
        self.by_start: list[tuple[int, int]] = []  # start and size

    def allocate(self, size: int) -> int:
        """Allocates from the smallest sufficient gap and returns the offset."""
        index = bisect_left(self.by_size, (size, 0))
        if index < len(self.by_size):
            gap, start = self.by_size[index]
            self._remove(start, gap)
            self._add(start + size, gap - size)
            return start
        start = self.end
        if self.by_start and sum(self.by_start[-1]) == self.end:
            start, gap = self.by_start[-1]
            self._remove(start, gap)
        self.end = start + size
        return start

    def release(self, start: int, size: int) -> None:
        """Frees a range and merges it with adjacent gaps."""
        index = bisect_left(self.by_start, (start, 0))
        if index < len(self.by_start) and self.by_start[index][0] == start + size:
            after = self.by_start[index]
            self._remove(*after)
            size += after[1]
        if index and sum(self.by_start[index - 1]) == start:
            before = self.by_start[index - 1]
            self._remove(*before)
            start, size = before[0], size + before[1]
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        if size:
            insort(self.by_start, (start, size))
            insort(self.by_size, (size, start))

    def _remove(self, start: int, size: int) -> None:
        self.by_start.pop(bisect_left(self.by_start, (start, size)))
        self.by_size.pop(bisect_left(self.by_size, (size, start)))
