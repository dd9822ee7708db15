"""Assigns offsets in an arena; values with overlapping lifetimes do not overlap."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence

Span = tuple[int, int]  # first and last step of a lifetime
MOST_COMPARED = 1024  # limit of the quadratic algorithm
MOST_ORDERS = 16  # of sizes, with memoized layouts


class ArenaLayout:
    """Assigns offsets for the sizes of many calls, which are positive.

    An offset is a sum of sizes. The sums of one call serve later calls with the same order of
    sizes, unless values with overlapping lifetimes would overlap.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._sums: dict[tuple[int, ...], OffsetSums | None] = {}  # from the second call on

    def assign(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Returns the offset of each value and the size of the arena."""
        if len(sizes) > MOST_COMPARED:
            return _in_order(self.spans, sizes)
        order = tuple(sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True))
        sums = self._sums.get(order)
        layout = sums.assign(sizes) if sums else None
        if layout is None:
            layout = assign_offsets(self.spans, sizes)
            if len(self._sums) >= MOST_ORDERS and order not in self._sums:
                self._sums.clear()
            self._sums[order] = (
                OffsetSums(self.spans, sizes, layout[0]) if order in self._sums else None
            )
        return layout


class OffsetSums:
    """Each offset of a layout as the end of another value, or 0."""

    def __init__(self, spans: Sequence[Span], sizes: Sequence[int], offsets: list[int]) -> None:
        order = sorted(range(len(spans)), key=offsets.__getitem__)
        self._pairs = [
            (low, high)
            for position, low in enumerate(order)
            for high in order[position + 1 :]
            if spans[low][0] <= spans[high][1] and spans[high][0] <= spans[low][1]
        ]
        base = {
            high: low for low, high in self._pairs if offsets[low] + sizes[low] == offsets[high]
        }
        self._bases = [(index, base[index]) for index in order if offsets[index]]

    def assign(self, sizes: Sequence[int]) -> tuple[list[int], int] | None:
        """Returns the offsets for other sizes and the size of the arena; None if values overlap."""
        offsets = [0] * len(sizes)
        ends = [*sizes]
        for index, base in self._bases:
            offsets[index] = offset = ends[base]
            ends[index] += offset
        if any([ends[low] > offsets[high] for low, high in self._pairs]):
            return None
        return offsets, max(ends, default=0)


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
