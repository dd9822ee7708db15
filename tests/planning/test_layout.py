"""Values that are live at the same time do not overlap, with either algorithm."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.planning import layout

VALUES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6), st.sampled_from([0, 8, 24, 64])), max_size=24
)


@pytest.mark.parametrize("most_compared", [0, 1024])
@given(values=VALUES)
def test_values_live_at_once_do_not_overlap(
    most_compared: int, values: list[tuple[int, int, int]]
) -> None:
    spans = [(first, first + length) for first, length, _ in values]
    sizes = [size for *_, size in values]
    with mock.patch.object(layout, "MOST_COMPARED", most_compared):
        offsets, whole = layout.assign_offsets(spans, sizes)
    check(spans, sizes, offsets, whole)


def check(spans: list[tuple[int, int]], sizes: list[int], offsets: list[int], whole: int) -> None:
    alive = [
        sum(s for (a, b), s in zip(spans, sizes, strict=True) if a <= t <= b) for t in range(30)
    ]
    assert max(alive) <= whole <= sum(sizes)
    for i, (first, last) in enumerate(spans):
        assert 0 <= offsets[i] <= whole - sizes[i]
        for j in range(i):
            apart = last < spans[j][0] or spans[j][1] < first
            below = offsets[i] + sizes[i] <= offsets[j]
            assert apart or below or offsets[j] + sizes[j] <= offsets[i] or not sizes[i] * sizes[j]


def test_many_successive_values_use_the_memory_of_two() -> None:
    count = 2 * layout.MOST_COMPARED
    _, whole = layout.assign_offsets([(k, k + 1) for k in range(count)], [64] * count)
    assert whole == 128
