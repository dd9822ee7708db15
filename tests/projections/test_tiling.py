"""The closed forms of tilings compared with counting, and worked examples."""

import itertools

import pytest

from structir.ir import dims
from structir.ir.dims import as_sym, sym
from structir.projections.boxes import region
from structir.projections.cost import neighbours, shards
from structir.projections.maps import of_result
from structir.projections.regions import dependence
from structir.projections.spec import IndexSpec
from structir.projections.tiling import Stream, cheapest_tile, tiling_cost
from tests.projections.op_specs import spec_of


def streams(spec: IndexSpec) -> list[Stream]:
    (statement,) = spec.statements
    shared = [of_result(spec, statement, statement.writes[0], read) for read in statement.reads]
    assert None not in shared
    return [Stream(p, o.dims, 4) for p, o in zip(shared, spec.operands, strict=True)]


def extents(spec: IndexSpec) -> tuple:
    return spec.results[0].dims


def test_convolution_window() -> None:
    spec = spec_of("nn.conv1d", (1, 1, 22), (1, 1, 3))
    cost = tiling_cost(streams(spec), extents(spec), (1, 1, 2))
    x, kernel = cost.streams
    assert (x.box, x.shared[2], x.fresh(2)) == ((1, 1, 4), 2 * 4, 2 * 4)
    assert kernel.shared[2] == kernel.footprint
    assert cost.tiles == 10
    assert x.traffic == 4 * (10 * 4 - 9 * 2)


def test_disjoint_windows_share_nothing() -> None:
    spec = spec_of("nn.conv1d", (1, 1, 11), (1, 1, 2), strides=3)
    x, _ = tiling_cost(streams(spec), extents(spec), (1, 1, 1)).streams
    assert x.shared[2] == 0


def test_matrix_product_reuses_columns_down_the_rows() -> None:
    spec = spec_of("matmul", (8, 5), (5, 12))
    left, right = tiling_cost(streams(spec), extents(spec), (2, 12)).streams
    assert left.shared == (0, left.footprint)
    assert right.shared[0] == right.footprint
    assert right.traffic == right.footprint == 4 * 5 * 12


def test_formulas_hold_for_every_size() -> None:
    n, t = sym("n"), sym("t")
    spec = spec_of("matmul", (n, 5), (5, n))
    cost = tiling_cost(streams(spec), extents(spec), (t, t))
    for size, tile in itertools.product((4, 8, 12), (1, 2, 4)):
        sizes = {as_sym(n): size, as_sym(t): tile}
        fixed = spec_of("matmul", (size, 5), (5, size))
        same = tiling_cost(streams(fixed), extents(fixed), (tile, tile))
        assert dims.evaluate(cost.traffic, sizes) == same.traffic
        assert dims.evaluate(cost.working_set, sizes) == same.working_set


@pytest.mark.parametrize("tile", [(1, 1, 1), (1, 2, 3), (1, 1, 4)])
def test_inner_tiles_equal_the_formulas(tile: tuple[int, ...]) -> None:
    spec = spec_of("nn.conv1d", (1, 2, 30), (4, 2, 3), strides=2, padding=1, dilation=2)
    dependency = dependence(spec)
    for axis in range(3):
        at = (0, 0, tile[2])
        if any(a + 2 * n > e for a, n, e in zip(at, tile, extents(spec), strict=True)) and axis < 2:
            continue
        shared = neighbours(
            lambda r: dict(enumerate(dependency.required_regions(r))), at, tile, axis
        )
        for k, cost in enumerate(tiling_cost(streams(spec), extents(spec), tile).streams):
            assert shared[k].box * 4 == cost.footprint
            assert shared[k].shared_box * 4 == cost.shared[axis]


def test_kinds_of_sharing() -> None:
    conv = dependence(spec_of("nn.conv1d", (1, 2, 30), (4, 2, 3)))
    shared = neighbours(
        lambda r: dict(enumerate(conv.required_regions(r))), (0, 0, 4), (1, 4, 4), 2
    )
    assert [shared[k].kind for k in (0, 1)] == ["halo", "full"]
    copy = dependence(spec_of("exp", (8,)))
    assert (
        neighbours(lambda r: dict(enumerate(copy.required_regions(r))), (0,), (4,), 0)[0].kind
        == "disjoint"
    )


def test_shards_cover_once() -> None:
    blocks = shards((7, 5), (3, 2))
    assert sum(p.volume for p in blocks) == 35
    union = blocks[0]
    assert all(not a.common(b) for a, b in itertools.combinations(blocks, 2))
    for piece in blocks[1:]:
        union = union | piece
    assert region((0, 0), (7, 5)).within(union)


def test_the_cheapest_tile_has_the_least_traffic_that_fits() -> None:
    spec = spec_of("matmul", (64, 64), (64, 64))
    sizes = (1, 2, 4, 8, 16, 32, 64)
    capacity = 16 * 1024
    best = cheapest_tile(streams(spec), (64, 64), [sizes, sizes], capacity)
    costs = {
        tile: tiling_cost(streams(spec), (64, 64), tile) for tile in itertools.product(sizes, sizes)
    }
    fitting = [c.traffic for c in costs.values() if c.working_set <= capacity]
    assert costs[best].traffic == min(fitting)
    assert costs[best].working_set <= capacity
    assert cheapest_tile(streams(spec), (64, 64), [[64], [64]], 100) is None
