"""The search of cuts: against exhaustive search, its memory bound, report and errors."""

import itertools
from collections.abc import Sequence

import pytest

import structir
from structir.distributed import ClusterModel, SearchReport, search
from structir.distributed.layouts import WorkerMesh
from structir.distributed.mesh_plan import MeshCuts
from structir.distributed.pipeline_stages import micro_batch_counts, pipeline_stages
from structir.distributed.repetition import longest_repetition, segments
from structir.distributed.simulation import simulate
from structir.errors import StructIRError
from tests.distributed.mesh_programs import CONVOLUTIONS, MLP, small_encoder

FAST = ClusterModel(bandwidth=1e9, latency=5e-6, flops=1e13)
WIDE_ATTENTION = """
@R.function
def main(
    q: R.Tensor((8, "n", 64), "float32"),
    k: R.Tensor((8, 64, "n"), "float32"),
    v: R.Tensor((8, "n", 64), "float32"),
):
    s = R.matmul(q, k)
    e = R.exp(s)
    o = R.matmul(e, v)
    return o
"""


def exhaustive(report: SearchReport, shape: tuple[int, ...], stages: Sequence[int]) -> float:
    """Returns the least simulated time of all cuts on a mesh."""
    space, best = report.space, float("inf")
    for count in stages:
        mesh = WorkerMesh(shape)
        for batches in micro_batch_counts(space.planner.kinds, space.planner.shape, count):
            table = space.table(mesh, batches)
            grouped = pipeline_stages(table, count)
            assert grouped is not None
            for cuts in itertools.product(*[table.cuts(unit.index) for unit in space.units]):
                choices = MeshCuts(mesh, cuts, grouped, batches)
                cost = simulate(table, choices, space.model, space.weights)
                best = min(best, cost.seconds)
    return best


@pytest.mark.parametrize("model", [ClusterModel(), FAST], ids=["default", "fast"])
@pytest.mark.parametrize(
    ("text", "sizes", "weights"),
    [
        (MLP, {"n": 32}, ["v", "w"]),
        (MLP, {"n": 4096}, ["v", "w"]),
        (WIDE_ATTENTION, {"n": 256}, []),
        (CONVOLUTIONS, {"h": 128}, ["k", "m"]),
    ],
    ids=["mlp", "mlp_rows", "attention", "convolutions"],
)
def test_the_choice_for_64_workers_is_within_10_percent_of_the_best(
    text: str, sizes: dict, weights: list, model: ClusterModel
) -> None:
    report = search(
        structir.parse(text),
        workers=64,
        sizes=sizes,
        weights=weights,
        model=model,
        mesh=(64,),
        stages=1,
    )
    assert report.cost.seconds <= 1.1 * exhaustive(report, (64,), [1])


def test_the_choice_on_a_mesh_of_two_axes_is_within_10_percent_of_the_best() -> None:
    options = {"workers": 8, "sizes": {"n": 32}, "weights": ["v", "w"], "stages": 1}
    text = MLP.replace("R.nn.relu(R.matmul(x, v))", "R.matmul(x, v)")
    report = search(structir.parse(text), mesh=(4, 2), **options)
    assert report.cost.seconds <= 1.1 * exhaustive(report, (4, 2), [1])


@pytest.mark.parametrize("workers", [2, 16, 1024])
def test_the_simulation_is_of_any_number_of_workers(workers: int) -> None:
    module = structir.parse(MLP)
    options = {"sizes": {"n": 65536}, "weights": ["v", "w"], "stages": 1}
    report = search(module, workers=workers, mesh=(workers,), **options)
    assert report.plan.choices.size == workers
    one = search(module, workers=1, **options)
    assert report.cost.compute == pytest.approx(one.cost.compute / workers, rel=0.01)


def test_a_bound_on_the_memory_splits_the_weights() -> None:
    module = structir.parse(MLP)
    options = {"workers": 4, "sizes": {"n": 8}, "weights": ["v", "w"]}
    free = search(module, **options)
    assert free.cost.weights == (32 * 64 + 64 * 16) * 4
    bound = search(module, **options, memory=6000)
    assert bound.cost.memory <= 6000 < free.cost.memory
    assert bound.cost.seconds >= free.cost.seconds
    with pytest.raises(StructIRError, match=r"keeps each within 99 bytes; the least.*memory="):
        search(module, **options, memory=99)


def test_simulated_levels_and_weights_are_those_of_the_plan() -> None:
    module, _, weights = small_encoder()
    report = search(
        module,
        workers=4,
        sizes={"batch": 3, "seq": 9},
        weights=list(weights),
        mesh=(4,),
        stages=1,
        cuts={"query": 2, "wide": 2, "lv14": "k"},
    )
    plan = report.plan
    held = [
        sum(
            next(t for t in plan.planner.inputs.values() if t.name == name).bytes_of(block)
            for name, block in blocks.items()
        )
        for blocks in plan.weight_blocks.values()
    ]
    assert max(held) == report.cost.weights


def test_equal_layers_are_searched_once() -> None:
    assert longest_repetition([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8]) == (1, 3, 3)
    assert segments([9, 1, 2, 1, 2, 8]) == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert segments([1, 2, 3]) == [(0, 3)]
    module, _, weights = small_encoder(3)
    report = search(
        module, workers=2, sizes={"batch": 4, "seq": 8}, weights=list(weights), mesh=(2,), stages=1
    )
    table = report.space.table(report.plan.mesh, 1)
    assert longest_repetition(table.signatures)[2] >= 2
    assert {c.count for c in report.choices} >= {3}


def test_the_report_explains_cuts_and_alternatives() -> None:
    report = search(
        structir.parse(MLP),
        workers=4,
        sizes={"n": 8},
        weights=["v", "w"],
        memory=6000,
        mesh=(4,),
        stages=1,
    )
    y = report.choices[-1]
    assert (y.cut, y.states) == ("loop k", ("partial(sum)",))
    assert "h, w disjoint; one reduction of" in y.reason
    others = report.alternatives("y")
    assert {a.cut for a in others} == {"none", "axis 0", "axis 1"}
    assert all(a.seconds >= report.cost.seconds or not a.feasible for a in others)
    text = str(report)
    assert "partial(sum)" in text
    assert "chosen" in text
    assert report.data()["cuts"][-1]["cut"] == "loop k"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuts": {"y": 2}}, r"cannot cut `y`[^$]*axis 2: expected an axis below 2[^$]*\"y\": 0"),
        ({"cuts": {"y": "j"}}, r"no reduction loop `j`; available: `k`"),
        ({"cuts": {"z": 0}}, "no value `z`"),
        ({"cuts": {"y": (0, 1, 0)}, "mesh": (2, 2)}, "expected 2 entries for `y`"),
        ({"weights": ["u"]}, "expected parameters of main"),
        ({"mesh": (3,)}, "no mesh of 4 workers"),
        ({"workers": 0}, "workers must be a positive integer"),
        ({"stages": 2, "micro_batches": 9}, "into 9 micro-batches: its size is 8"),
        ({"sizes": {}}, "symbolic dim `n`"),
        ({"name": "other"}, "no function `other`"),
    ],
)
def test_invalid_requests(options: dict, message: str) -> None:
    with pytest.raises(StructIRError, match=message):
        search(structir.parse(MLP), **{"workers": 4, "sizes": {"n": 8}, **options})
