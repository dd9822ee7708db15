"""Topological orders that are nearest to the order of a program."""

from __future__ import annotations

import heapq
from collections.abc import Collection


def topological_order(count: int, edges: Collection[tuple[int, int]]) -> list[int] | None:
    """Returns the topological order of the numbers below `count` that is nearest to their own;
    None if the edges (earlier, later) have a cycle."""
    followers: dict[int, list[int]] = {}
    waiting = [0] * count
    for before, after in edges:
        followers.setdefault(before, []).append(after)
        waiting[after] += 1
    ready = [k for k in range(count) if not waiting[k]]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in followers.get(index, ()):
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, after)
    return order if len(order) == count else None
