"""Finds equal layers: the longest repetition in the sequence of units."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise


def segments(signatures: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Returns the units in segments: what precedes the repetition, each layer, and the rest."""
    first, period, count = longest_repetition(signatures)
    cuts = sorted({0, *[first + period * k for k in range(count + 1)], len(signatures)})
    return list(pairwise(cuts))


def longest_repetition(signatures: Sequence[Hashable]) -> tuple[int, int, int]:
    """Returns the start, the period and the count of the repetition that covers most units.

    Of equal ones, the shortest period and the first start. A count of 0: nothing repeats.
    """
    numbers: dict[Hashable, int] = {}
    values = [numbers.setdefault(s, len(numbers)) for s in signatures]
    best = (0, 1, 0)
    covered = 0
    for period in range(2, len(values) // 2 + 1):
        run = 0
        for end in range(period, len(values)):
            run = run + 1 if values[end] == values[end - period] else 0
            count = run // period + 1
            if count > 1 and run % period == 0 and count * period > covered:
                covered = count * period
                best = (end + 1 - covered, period, count)
    return best
