"""Plans: blocks of worked examples, overlap, bytes, and invalid grids."""

import re
from math import prod

import pytest

import structir
from structir.distributed import ClusterModel, plan
from structir.distributed.report import picture, shard_table, traffic_table
from structir.errors import StructIRError
from structir.script import R


@R.function
def linear(
    x: R.Tensor(("n", 64), "float32"),
    w: R.Tensor((64, 32), "float32"),
    b: R.Tensor((32,), "float32"),
):
    y = R.matmul(x, w)
    z = R.add(y, b)
    return z


@R.function
def convolutions(x: R.Tensor((1, 2, 32, 32), "float32"), k: R.Tensor((2, 2, 3, 3), "float32")):
    y = R.nn.conv2d(x, k, padding=1)
    z = R.nn.conv2d(y, k, padding=1)
    return z


@R.function
def attention(
    q: R.Tensor(("n", 8), "float32"),
    k: R.Tensor(("m", 8), "float32"),
    v: R.Tensor(("m", 8), "float32"),
):
    scores = R.matmul(q, R.permute_dims(k))
    weights = R.nn.softmax(scores, axis=-1)
    out = R.matmul(weights, v)
    return out


@R.function
def total(x: R.Tensor((6, 100), "float32")):
    y = R.sum(x, axis=[1])
    return y


def test_a_linear_layer_split_by_features_sends_the_input_to_all_shards_and_weights_once() -> None:
    sharding = plan(linear, grid=(1, 4), sizes={"n": 8})
    assert sharding.traffic() == {"x": (2048, 4 * 2048), "w": (8192, 8192), "b": (128, 128)}
    assert sharding.shards[1].block_of("w") == ((0, 8), (64, 16))
    assert {name: each.kind for name, each in sharding.axes[1].items()} == {
        "x": "full",
        "w": "disjoint",
        "b": "disjoint",
    }


def test_two_convolutions_have_a_halo_of_four() -> None:
    sharding = plan(convolutions, grid=(1, 1, 4, 1))
    heights = [s.block_of("x") for s in sharding.shards]
    assert [(a[2], b[2]) for a, b in heights] == [(0, 10), (6, 18), (14, 26), (22, 32)]
    shared = sharding.axes[2]["x"]
    assert (shared.kind, sharding.axes[2]["k"].kind) == ("halo", "full")


def test_attention_is_split_by_queries() -> None:
    sharding = plan(attention, grid=(4, 1), sizes={"n": 16, "m": 10})
    second = sharding.shards[1]
    assert second.block_of("q") == ((4, 0), (8, 8))
    assert second.block_of("k") == second.block_of("v") == ((0, 0), (10, 8))


def test_the_cheapest_grid_has_the_least_overlap() -> None:
    assert plan(linear, workers=4, sizes={"n": 1000}).grid == (4, 1)
    assert plan(linear, workers=4, sizes={"n": 4}).grid == (1, 4)
    assert plan(convolutions, workers=4).grid == (1, 1, 2, 2)


def test_the_grid_depends_on_execution_costs() -> None:
    perceptron = structir.parse("""
@R.function
def main(
    x: R.Tensor((8, 32), "float32"),
    v: R.Tensor((32, 16), "float32"),
    w: R.Tensor((16, 512), "float32"),
):
    y = R.matmul(R.matmul(x, v), w)
    return y
""")
    few_bytes = plan(perceptron, workers=4, model=ClusterModel(flops=1e15))
    few_operations = plan(perceptron, workers=4, model=ClusterModel(flops=1e6))
    assert (few_bytes.grid, few_operations.grid) == ((1, 4), (4, 1))


def test_max_bytes_bounds_the_blocks_of_a_shard() -> None:
    sharding = plan(linear, workers=2, sizes={"n": 4096}, max_bytes=100_000)
    assert len(sharding.shards) > 2
    assert all(s.bytes_in + s.bytes_out <= 100_000 for s in sharding.shards)
    with pytest.raises(StructIRError, match="no grid of main keeps every shard within 64 bytes"):
        plan(linear, workers=2, sizes={"n": 4}, max_bytes=64)


@pytest.mark.parametrize("grid", [(1, 1), (3, 5), (7, 32)])
def test_results_are_covered_exactly_once(grid: tuple[int, int]) -> None:
    sharding = plan(linear, grid=grid, sizes={"n": 10})
    blocks = [s.results[0] for s in sharding.shards]
    points = {(i, j) for a, b in blocks for i in range(a[0], b[0]) for j in range(a[1], b[1])}
    assert len(points) == sum(prod(q - p for p, q in zip(a, b, strict=True)) for a, b in blocks)
    assert len(points) == 320


def test_partial_reductions_read_disjoint_columns() -> None:
    sharding = plan(total, grid=(2,), reduce=4)
    assert (sharding.pieces, sharding.combine, len(sharding.shards)) == (4, "add", 8)
    columns = [s.block_of("x") for s in sharding.shards[:4]]
    assert [(a[1], b[1]) for a, b in columns] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    assert sharding.bytes_in == 6 * 100 * 4


def test_calls_list_the_block_of_each_op() -> None:
    sharding = plan(linear, grid=(2, 2), sizes={"n": 8})
    calls = list(sharding.calls(sharding.shards[3]))
    assert [(c.op, c.block) for c in calls] == [
        ("matmul", ((4, 16), (8, 32))),
        ("add", ((4, 16), (8, 32))),
    ]
    assert "test_plan.py:" in calls[0].location


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((2,), "grid has 1 entries but the result of main has rank 2"),
        ((9, 1), r"cannot split axis 0 \(size 8\) into 9 shards"),
        ((0, 1), r"cannot split axis 0 \(size 8\) into 0 shards"),
    ],
)
def test_invalid_grids(grid: tuple[int, ...], message: str) -> None:
    with pytest.raises(StructIRError, match=message):
        plan(linear, grid=grid, sizes={"n": 8})


def test_missing_and_unknown_sizes() -> None:
    with pytest.raises(StructIRError, match="symbolic dim `n`"):
        plan(linear, grid=(1, 1))
    with pytest.raises(StructIRError, match="no symbolic dim `q`"):
        plan(linear, grid=(1, 1), sizes={"n": 8, "q": 3})


def test_only_results_of_reductions_split_by_reduce() -> None:
    with pytest.raises(StructIRError, match="found add"):
        plan(linear, grid=(1, 1), sizes={"n": 8}, reduce=2)


def test_reports_of_a_plan() -> None:
    sharding = plan(linear, grid=(2, 2), sizes={"n": 8})
    assert shard_table(sharding).row_count == 4
    assert traffic_table(sharding).row_count == 3
    svg = picture(sharding)
    assert len(re.findall("<title>", svg)) == 4 * 4
    assert "receives x (8, 64)" in svg


def test_a_thousand_elementwise_ops_require_the_block_of_each_value() -> None:
    lines = "\n".join([f"    v{k + 1} = R.add(v{k}, x)" for k in range(1000)])
    text = f"""
@R.function
def main(x: R.Tensor((64, 64), "float32")):
    v0 = R.exp(x)
{lines}
    return v1000
"""
    sharding = plan(structir.parse(text), grid=(8, 8))
    assert len(sharding.shards) == 64
    assert all(s.bytes_in == 8 * 8 * 4 for s in sharding.shards)
