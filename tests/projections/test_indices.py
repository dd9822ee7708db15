"""The arithmetic of index sets and boxes, compared with Python's sets."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from structir.projections.boxes import MAX_BOXES, Box, Region, region, region_of, whole
from structir.projections.position_sets import EMPTY, SPAN, PositionSet, of, only

positions = st.sets(st.integers(-9, 12), max_size=8)
sets = positions.map(lambda s: of(sorted(s)))
intervals = st.tuples(st.integers(-9, 9), st.integers(0, 9)).map(
    lambda p: PositionSet(p[0], p[0] + p[1]) if p[1] else EMPTY
)
either = st.one_of(sets, intervals)


def as_set(indices: PositionSet) -> set[int]:
    return set(indices.elements())


def least_terms(indices: PositionSet) -> bool:
    """Whether the first and the last position are elements, with a mask only for sets with gaps."""
    result = sorted(as_set(indices))
    if not result:
        return indices == EMPTY
    ends = (indices.start, indices.stop) == (result[0], result[-1] + 1)
    return ends and bool(indices.mask) == (indices.size < indices.stop - indices.start)


@given(either, either)
def test_sums_and_set_operations(a: PositionSet, b: PositionSet) -> None:
    left, right = as_set(a), as_set(b)
    for result, want in (
        (a.plus(b), {p + q for p in left for q in right}),
        (a.common(b), left & right),
        (a.joined(b), left | right),
        (a.without(b), left - right),
    ):
        assert as_set(result) == want
        assert least_terms(result)
        assert result.exact
    assert a.within(b) == (left <= right)
    assert (a == b) == (left == right)


@given(either, st.integers(-4, 4))
def test_multiples_and_quotients(a: PositionSet, factor: int) -> None:
    own = as_set(a)
    assert as_set(a.times(factor)) == {factor * p for p in own}
    assert least_terms(a.times(factor))
    if factor:
        expected = {q for q in range(-60, 60) if factor * q in own}
        assert as_set(a.over(factor)) == expected
        assert least_terms(a.over(factor))
    if factor > 0:
        assert as_set(a.floored(factor)) == {p // factor for p in own}
        assert as_set(a.modulo(factor)) == {p % factor for p in own}


@given(either, st.integers(-9, 12), st.integers(-9, 12))
def test_clipping_and_runs(a: PositionSet, low: int, high: int) -> None:
    assert as_set(a.clipped(low, high)) == {p for p in as_set(a) if low <= p < high}
    assert least_terms(a.clipped(low, high))
    runs = list(a.runs())
    assert {p for first, last in runs for p in range(first, last)} == as_set(a)
    assert all(after[0] > before[1] for before, after in itertools.pairwise(runs))


@given(either, either)
def test_a_superset_remains_a_superset(a: PositionSet, b: PositionSet) -> None:
    loose = b.with_exactness(False) if b else b
    for result in (a.plus(loose), a.common(loose), a.joined(loose)):
        assert not result.exact or not result or not b
    assert as_set(a.without(loose)) == as_set(a)


def test_long_sets_with_gaps_become_their_hull() -> None:
    far = only(0).joined(only(2 * SPAN))
    assert (far.size, far.exact) == (2 * SPAN + 1, False)
    strided = PositionSet(0, SPAN).times(3)
    assert (strided.start, strided.stop, strided.exact) == (0, 3 * (SPAN - 1) + 1, False)


boxes = st.lists(st.tuples(sets, intervals), max_size=6).map(
    lambda pairs: [Box(pair) for pair in pairs if all(pair)]
)


def elements(result: Region) -> set[tuple[int, ...]]:
    return {p for b in result.boxes for p in itertools.product(*[a.elements() for a in b.axes])}


@given(boxes)
def test_unions(parts: list[Box]) -> None:
    result = region_of(parts)
    want = elements(Region(tuple(parts)))
    assert want <= elements(result)
    assert len(result.boxes) <= MAX_BOXES
    assert result.count == len(elements(result))
    if result.exact:
        assert elements(result) == want
        assert result.needed == len(want)
    if want:
        assert result.bounds == (
            tuple(min(p[k] for p in want) for k in range(2)),
            tuple(max(p[k] for p in want) + 1 for k in range(2)),
        )


@given(boxes, boxes)
def test_intersections_of_regions(first: list[Box], second: list[Box]) -> None:
    a, b = region_of(first), region_of(second)
    if a.exact and b.exact:
        shared = a.common(b)
        assert elements(shared) >= elements(a) & elements(b)
        assert not shared.exact or elements(shared) == elements(a) & elements(b)
        assert a.within(b) == (elements(a) <= elements(b))


@given(boxes, boxes)
def test_differences_omit_no_element(first: list[Box], second: list[Box]) -> None:
    for a, b in itertools.product(first, second):
        left = a.without(b)
        own = set() if left is None else elements(Region((left,)))
        assert own >= elements(Region((a,))) - elements(Region((b,)))
        if left is not None and left.exact:
            assert own == elements(Region((a,))) - elements(Region((b,)))


def test_adjacent_blocks_are_merged() -> None:
    assert (region((0, 0), (2, 4)) | region((2, 0), (5, 4))).boxes == whole((5, 4)).boxes
    assert len((region((0, 0), (2, 4)) | region((2, 0), (5, 3))).boxes) == 2
    assert not region((0, 3), (2, 3))
    assert whole(()).count == 1
