"""Surjectivity and injectivity of indices, compared with counting."""

from hypothesis import given
from hypothesis import strategies as st

from structir.ir.dims import Sym, as_dim, sym
from structir.projections.injectivity import covers, injective
from structir.projections.spec import AccessIndex

LETTERS = tuple(Sym(n) for n in "ijk")


def access(rows: list[list[int]]) -> list[AccessIndex]:
    entries = [sum(c * as_dim(s) for c, s in zip(row, LETTERS, strict=False)) for row in rows]
    return [AccessIndex(index, 99, inside=False) for index in entries]


@given(
    st.lists(st.lists(st.integers(-3, 4), min_size=3, max_size=3), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_injectivity(rows: list[list[int]], extents: list[int]) -> None:
    points = [
        (i, j, k) for i in range(extents[0]) for j in range(extents[1]) for k in range(extents[2])
    ]
    places = {
        tuple(sum(c * p for c, p in zip(row, at, strict=True)) for row in rows) for at in points
    }
    answer = injective(access(rows), LETTERS, dict(zip(LETTERS, extents, strict=True)))
    assert answer is None or answer == (len(places) == len(points))


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 4)), max_size=3))
def test_surjectivity(terms: list[tuple[int, int]]) -> None:
    sums = {0}
    for factor, extent in terms:
        sums = {s + factor * p for s in sums for p in range(extent)}
    assert covers(terms) == (max(sums) - min(sums) + 1 == len(sums))


def test_signed_permutations_and_row_major_indices_of_any_size() -> None:
    m, n, k = sym("m"), sym("n"), sym("k")
    i, j, h = (as_dim(s) for s in LETTERS)
    extents = dict(zip(LETTERS, (m, n, k), strict=True))
    assert injective(
        [AccessIndex(j, n), AccessIndex(m - 1 - i, m), AccessIndex(h, k)], LETTERS, extents
    )
    assert injective([AccessIndex((i * n + j) * k + h, m * n * k)], LETTERS, extents)
    assert injective(
        [AccessIndex(i + j, m + n), AccessIndex(j, n), AccessIndex(h, k)], LETTERS, extents
    )
    assert injective([AccessIndex(i, m), AccessIndex(j, n)], LETTERS, extents) is not True


def test_an_overlapping_window_is_not_injective() -> None:
    i, j, _ = (as_dim(s) for s in LETTERS)
    extents = {LETTERS[0]: 5, LETTERS[1]: 3}
    assert injective([AccessIndex(2 * i + j, 11)], LETTERS[:2], extents) is False
    assert injective([AccessIndex(3 * i + j, 15)], LETTERS[:2], extents) is True
