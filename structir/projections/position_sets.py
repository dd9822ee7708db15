"""Sets of positions along one axis, and their arithmetic under index expressions.

Most sets are intervals. Strides and dilations leave gaps. A set with gaps is a bit mask in one
integer, so that windows across a border and chains of strided reads remain exact. A set with gaps
wider than SPAN becomes its hull, marked as a superset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

SPAN = 1 << 16  # the greatest width of a set with gaps
WORK = 1 << 22  # limit of bit operations in a sum of two sets with gaps


class PositionSet(NamedTuple):
    """The positions from `start` to `stop` exclusive, without the gaps.

    Bit k of `mask` is set if `start + k` is in the set; mask 0 means no gaps. A set that is not
    `exact` is a superset. Sets are in canonical form (the first and the last position are
    elements), so `==` compares sets.
    """

    start: int
    stop: int
    mask: int = 0
    exact: bool = True

    def __bool__(self) -> bool:
        return self.stop > self.start

    @property
    def size(self) -> int:
        """The number of positions."""
        return self.mask.bit_count() if self.mask else self.stop - self.start

    @property
    def bits(self) -> int:
        """The mask; all ones for an interval."""
        return self.mask or (1 << (self.stop - self.start)) - 1

    def has(self, position: int) -> bool:
        """Whether a position is an element."""
        inside = self.start <= position < self.stop
        return inside and (not self.mask or bool(self.mask >> (position - self.start) & 1))

    def elements(self) -> Iterator[int]:
        """Yields the positions in order."""
        if not self.mask:
            yield from range(self.start, self.stop)
            return
        for start, stop in self.runs():
            yield from range(start, stop)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yields the maximal intervals, in order."""
        if not self.mask:
            if self:
                yield self.start, self.stop
            return
        position, mask = self.start, self.mask
        while mask:
            gap = (mask & -mask).bit_length() - 1
            mask >>= gap
            width = (~mask & (mask + 1)).bit_length() - 1
            position += gap
            yield position, position + width
            position += width
            mask >>= width

    def hull(self) -> PositionSet:
        """Returns the interval from the first to the last position, marked as a superset."""
        return PositionSet(self.start, self.stop, 0, False) if self else self

    def shifted(self, by: int) -> PositionSet:
        """Returns the set translated by an offset."""
        if not self:
            return self
        return PositionSet(self.start + by, self.stop + by, self.mask, self.exact)

    def plus(self, other: PositionSet) -> PositionSet:
        """Returns the Minkowski sum of two sets."""
        if not self or not other:
            return EMPTY
        start, stop = self.start + other.start, self.stop + other.stop - 1
        exact = self.exact and other.exact
        if not self.mask and not other.mask:
            return PositionSet(start, stop, 0, exact)
        if stop - start > SPAN:
            return PositionSet(start, stop, 0, False)
        few, many = (self, other) if self.size <= other.size else (other, self)
        if not few.mask or not many.mask:
            with_gaps, interval = (self, other) if self.mask else (other, self)
            return of_bits(start, repeat_mask(with_gaps.mask, interval.size), exact)
        if few.size * (stop - start) > WORK:
            return PositionSet(start, stop, 0, False)
        total = 0
        for position in few.elements():
            total |= many.mask << (position - few.start)
        return of_bits(start, total, exact)

    def times(self, factor: int) -> PositionSet:
        """Returns the set of multiples of the positions."""
        if factor == 1 or not self:
            return self
        if factor == 0:
            return PositionSet(0, 1, 0, self.exact)
        if factor < 0:
            return self.mirrored().times(-factor)
        start, stop = self.start * factor, (self.stop - 1) * factor + 1
        if stop - start == 1:
            return PositionSet(start, stop, 0, self.exact)
        if stop - start > SPAN:
            return PositionSet(start, stop, 0, False)
        mask = (
            spread(self.mask, factor) if self.mask else strided_mask(self.stop - self.start, factor)
        )
        return PositionSet(start, stop, mask, self.exact)

    def mirrored(self) -> PositionSet:
        """Returns the set of negated positions."""
        if not self:
            return self
        mask = int(bin(self.mask)[:1:-1], 2) if self.mask else 0
        return PositionSet(1 - self.stop, 1 - self.start, mask, self.exact)

    def over(self, factor: int) -> PositionSet:
        """Returns the numbers whose multiples by a factor (not 0) are in the set."""
        if factor < 0:
            return self.mirrored().over(-factor)
        if factor == 1 or not self:
            return self
        first, last = -(-self.start // factor), (self.stop - 1) // factor
        if first > last:
            return EMPTY
        if not self.mask:
            return PositionSet(first, last + 1, 0, self.exact)
        bits = bin(self.mask)[:1:-1][first * factor - self.start :: factor]
        return of_bits(first, int(bits[::-1], 2), self.exact)

    def clipped(self, low: int, high: int) -> PositionSet:
        """Returns the positions from `low` to `high` exclusive."""
        if low <= self.start and self.stop <= high:
            return self
        start, stop = max(low, self.start), min(high, self.stop)
        if stop <= start:
            return EMPTY
        if not self.mask:
            return PositionSet(start, stop, 0, self.exact)
        mask = (self.mask >> (start - self.start)) & ((1 << (stop - start)) - 1)
        return of_bits(start, mask, self.exact)

    def common(self, other: PositionSet) -> PositionSet:
        """Returns the intersection."""
        if not other.mask:
            result = self.clipped(other.start, other.stop)
        elif not self.mask:
            result = other.clipped(self.start, self.stop)
        else:
            start = max(self.start, other.start)
            lhs, rhs = (s.clipped(start, s.stop) for s in (self, other))
            result = EMPTY
            if lhs and rhs:
                result = of_bits(start, _bits_from(lhs, start) & _bits_from(rhs, start))
        if self.exact and other.exact:
            return result
        return result.with_exactness(False) if result else EMPTY

    def joined(self, other: PositionSet) -> PositionSet:
        """Returns the union, or its hull if that is wider than SPAN."""
        if not self or not other:
            return self or other
        start, stop = min(self.start, other.start), max(self.stop, other.stop)
        exact = self.exact and other.exact
        touching = max(self.start, other.start) <= min(self.stop, other.stop)
        if touching and not self.mask and not other.mask:
            return PositionSet(start, stop, 0, exact)
        if stop - start > SPAN:
            return PositionSet(start, stop, 0, False)
        return of_bits(start, _bits_from(self, start) | _bits_from(other, start), exact)

    def without(self, other: PositionSet) -> PositionSet:
        """Returns the difference of two sets, or a superset of it where that is unknown."""
        if not other.exact or not self.common(other):
            return self
        if not other.mask and other.start <= self.start:
            return self.clipped(other.stop, self.stop)
        if not other.mask and self.stop <= other.stop:
            return self.clipped(self.start, other.start)
        if self.stop - self.start > SPAN:
            return self.with_exactness(False)
        inner = other.clipped(self.start, self.stop)
        return of_bits(self.start, self.bits & ~_bits_from(inner, self.start), self.exact)

    def within(self, other: PositionSet) -> bool:
        """Whether the set is a subset of another."""
        if not self:
            return True
        if self.start < other.start or self.stop > other.stop:
            return False
        return not other.mask or not (_bits_from(self, other.start) & ~other.mask)

    def floored(self, divisor: int) -> PositionSet:
        """Returns the floor quotients of the positions by a positive divisor."""
        if not self.mask:
            stop = (self.stop - 1) // divisor + 1
            return PositionSet(self.start // divisor, stop, 0, self.exact) if self else self
        return of(sorted({v // divisor for v in self.elements()}), self.exact)

    def modulo(self, divisor: int) -> PositionSet:
        """Returns the remainders of the positions by a positive divisor."""
        if self.mask:
            return of(sorted({v % divisor for v in self.elements()}), self.exact)
        if self.stop - self.start >= divisor:
            return PositionSet(0, divisor, 0, self.exact)
        if not self:
            return self
        first, last = self.start % divisor, (self.stop - 1) % divisor
        if first <= last:
            return PositionSet(first, last + 1, 0, self.exact)
        head, tail = (
            PositionSet(0, last + 1, 0, self.exact),
            PositionSet(first, divisor, 0, self.exact),
        )
        return head.joined(tail)

    def mapped(self, function: Callable[[int], int]) -> PositionSet:
        """Returns the image of the set under a function."""
        return of(sorted({function(v) for v in self.elements()}), self.exact)

    def with_exactness(self, exact: bool) -> PositionSet:
        """Returns the same positions, marked as exact or as a superset."""
        return PositionSet(self.start, self.stop, self.mask, exact)


EMPTY = PositionSet(0, 0)


def of_bits(start: int, mask: int, exact: bool = True) -> PositionSet:
    """Returns the set of the positions `start + k` for each bit k of the mask."""
    if not mask:
        return EMPTY
    low = (mask & -mask).bit_length() - 1
    mask >>= low
    width = mask.bit_length()
    holes = mask if mask.bit_count() < width else 0
    return PositionSet(start + low, start + low + width, holes, exact)


def of(positions: Iterable[int], exact: bool = True) -> PositionSet:
    """Returns the set of these positions, which must be in ascending order."""
    ordered = list(positions)
    if not ordered:
        return EMPTY
    start, stop = ordered[0], ordered[-1] + 1
    if stop - start == len(ordered):
        return PositionSet(start, stop, 0, exact)
    if stop - start > SPAN:
        return PositionSet(start, stop, 0, False)
    digits = bytearray(b"0" * (stop - start))
    for position in ordered:
        digits[stop - 1 - position] = 49  # the digit 1
    return of_bits(start, int(digits, 2), exact)


def only(position: int) -> PositionSet:
    """Returns the set of one position."""
    return PositionSet(position, position + 1)


def _bits_from(indices: PositionSet, start: int) -> int:
    return indices.bits << (indices.start - start)


@lru_cache(4096)
def strided_mask(count: int, step: int) -> int:
    """Returns a mask with `count` bits, at 0, step, 2 * step, ..."""
    return repeat_mask(1, count, step)


def repeat_mask(mask: int, count: int, step: int = 1) -> int:
    """Returns the union of `count` copies of a mask, each shifted by `step` from the last."""
    copies, total = 1, mask
    while 2 * copies <= count:
        total |= total << (copies * step)
        copies *= 2
    return total | (total << ((count - copies) * step))


def spread(mask: int, step: int) -> int:
    """Returns a mask with every bit k moved to `k * step`."""
    return int(("0" * (step - 1)).join(bin(mask)[2:]), 2)
