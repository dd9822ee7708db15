"""Projections: worked examples, composition, and boxes at concrete and symbolic sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structir.ir import dims
from structir.ir.dims import Sym, as_dim, sym
from structir.projections.maps import Projection, identity, inverse, of_result, projection
from structir.projections.spec import AccessIndex, IndexSpec
from tests.projections.op_specs import spec_of


def of(spec: IndexSpec, operand: int) -> Projection:
    """Returns the projection from the result to an operand."""
    (statement,) = spec.statements
    read = next(r for r in statement.reads if r.operand == operand)
    access = of_result(spec, statement, statement.writes[0], read)
    assert access is not None
    return access


def test_matrix_product() -> None:
    spec = spec_of("matmul", (10, 5), (5, 12))
    assert of(spec, 0) == Projection(((1, 0), (0, 0)), (0, 0), (1, 5))
    assert of(spec, 1) == Projection(((0, 0), (0, 1)), (0, 0), (5, 1))


def test_linear_reads_one_row_of_weights_and_one_bias() -> None:
    n = sym("n")
    spec = spec_of("linear", (n, 4), (3, 4), (3,))
    assert of(spec, 0) == Projection(((1, 0), (0, 0)), (0, 0), (1, 4))
    assert of(spec, 1) == Projection(((0, 1), (0, 0)), (0, 0), (1, 4))
    assert of(spec, 2) == Projection(((0, 1),), (0,), (1,))


def test_a_reversed_vector_starts_at_the_last_element() -> None:
    n = sym("n")
    assert of(spec_of("flip", (n,), 0), 0) == Projection(((-1,),), (n - 1,), (1,))


def test_row_sum() -> None:
    m, n = sym("m"), sym("n")
    access = of(spec_of("sum", (m, n), axis=[1]), 0)
    assert access == Projection(((1,), (0,)), (0, 0), (1, n))


@pytest.mark.parametrize(("s", "d", "p", "k"), [(1, 1, 0, 3), (2, 1, 1, 3), (3, 2, 2, 2)])
def test_window(s: int, d: int, p: int, k: int) -> None:
    spec = spec_of("nn.conv1d", (1, 2, 20), (4, 2, k), strides=s, padding=p, dilation=d)
    x, kernel = of(spec, 0), of(spec, 1)
    assert (x.matrix[2], x.offset[2], x.shape[2]) == ((0, 0, s), -p, 1 + (k - 1) * d)
    assert kernel.matrix[2] == (0, 0, 0)
    assert kernel.shape[2] == k


def test_a_diagonal_has_its_position_in_two_matrix_rows() -> None:
    access = of(spec_of("einsum", [(4, 4)], "ii->i"), 0)
    assert access == Projection(((1,), (1,)), (0, 0), (1, 1))


def test_windows_compose() -> None:
    first = Projection(((2,),), (-1,), (5,))
    second = Projection(((3,),), (0,), (4,))
    assert second.after(first) == Projection(((6,),), (-1,), (5 + (4 - 1) * 2,))


def test_reverse_after_reverse_is_the_identity() -> None:
    n = sym("n")
    back = of(spec_of("flip", (n,), 0), 0)
    assert back.after(back) == identity((n,))


def test_reverse_then_stride_two() -> None:
    back = of(spec_of("flip", (8,), 0), 0)
    half = of(spec_of("strided_slice", (8,), [0], [0], [8], [2]), 0)
    assert half.after(back) == Projection(((-2,),), (7,), (1,))


def test_mixed_signs_use_the_extreme_of_each_position() -> None:
    i, k = Sym("i"), Sym("k")
    entry = AccessIndex(as_dim(i) - as_dim(k), 9, inside=False)
    access = projection([entry], [i, k], {i: 5, k: 5})
    assert access.box([0, 0], [3, 4]) == ((-3,), (3,))


def test_only_signed_permutations_have_an_inverse() -> None:
    i, j = Sym("i"), Sym("j")
    entries = [AccessIndex(4 - as_dim(j), 5), AccessIndex(as_dim(i) + 2, 9)]
    access = inverse(entries, [i, j], {i: 7, j: 5})
    assert access == Projection(((0, 1), (-1, 0)), (-2, 4), (1, 1))
    assert inverse([AccessIndex(as_dim(i) * 2, 14)], [i], {i: 7}) is None
    assert inverse([AccessIndex(as_dim(i), 7)], [i, j], {i: 7, j: 5}) is None


maps = st.builds(
    lambda c, b, w: Projection(tuple(map(tuple, c)), tuple(b), tuple(w)),
    st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=2, max_size=2),
    st.lists(st.integers(-3, 3), min_size=2, max_size=2),
    st.lists(st.integers(1, 3), min_size=2, max_size=2),
)


def positions(own: Projection, at: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Yields every element of the box of a point."""
    starts = [
        b + sum(c * p for c, p in zip(row, at, strict=True))
        for row, b in zip(own.matrix, own.offset, strict=True)
    ]
    return {tuple(np.add(starts, step)) for step in np.ndindex(*own.shape)}


@given(maps, maps, st.tuples(st.integers(-2, 2), st.integers(-2, 2)))
def test_composed_boxes_are_hulls(inner: Projection, outer: Projection, at: tuple) -> None:
    composed = inner.after(outer)
    assert composed is not None
    reached = {q for p in positions(inner, at) for q in positions(outer, p)}
    starts, stops = composed.box(at, [p + 1 for p in at])
    assert starts == tuple(np.min(list(reached), axis=0))
    assert stops == tuple(np.max(list(reached), axis=0) + 1)


@given(maps, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_touching_positions_contain_all_readers(own: Projection, corner: list[int]) -> None:
    start, stop = corner[:2], [a + 1 + b % 2 for a, b in zip(corner[:2], corner[2:], strict=True)]
    block = set(np.ndindex(*np.subtract(stop, start)))
    block = {tuple(np.add(b, start)) for b in block}
    low, high = own.touching(start, stop, (4, 4))
    for point in np.ndindex(4, 4):
        if positions(own, point) & block:
            assert all(a <= p < b for a, p, b in zip(low, point, high, strict=True))


def test_boxes_of_symbolic_sizes() -> None:
    n, t = sym("n"), sym("t")
    spec = spec_of("nn.conv1d", (1, 2, n), (4, 2, 3))
    starts, stops = of(spec, 0).box([0, 0, t], [1, 4, t + 8])
    assert starts[2] == t
    assert dims.equal(stops[2], t + 10)
