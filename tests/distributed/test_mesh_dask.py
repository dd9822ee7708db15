"""Whole models on four Dask workers in separate processes: results, weights, lost workers."""

import os
import signal

import numpy as np
import pytest

import structir
from structir.distributed import search, shard
from structir.distributed.layouts import volume
from structir.errors import ShapeMismatchError, StructIRError
from tests.distributed.mesh_programs import DECODER, MLP, decoder_arguments, floats, small_encoder

pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_encoder_runs_tensor_parallel_on_four_workers(client: object) -> None:
    module, inputs, weights = small_encoder()
    cuts = {"query": 2, "key": 2, "value": 2, "wide": 2, "lv10": "k", "lv14": "k"}
    report = search(
        module,
        workers=4,
        sizes={"batch": 3, "seq": 9},
        weights=list(weights),
        stages=1,
        mesh=(4,),
        cuts=cuts,
    )
    placed = report.program.on(client, **weights)
    expected = structir.compile(module)["main"](*inputs, *weights.values())
    for actual, whole in zip(placed(*inputs), expected, strict=True):
        np.testing.assert_allclose(actual, whole, rtol=1e-6, atol=1e-6)
    assert len(placed.placements) == 1  # weights are sent once
    blocks = [b for held in report.plan.weight_blocks.values() for b in held.values()]
    assert placed.placements[0] == sum(4 * volume(block) for block in blocks)


def test_a_decoder_block_runs_as_a_pipeline_and_survives_a_lost_worker(client: object) -> None:
    module, (inputs, weights) = structir.parse(DECODER), decoder_arguments(7)
    report = search(
        module,
        workers=4,
        sizes={"n": 7},
        weights=list(weights),
        stages=2,
        mesh=(2,),
        micro_batches=2,
    )
    placed = report.program.on(client, **weights)
    expected = structir.compile(module)["main"](*inputs, *weights.values())
    np.testing.assert_allclose(placed(*inputs), expected, rtol=1e-6, atol=1e-6)
    pids = list(client.run(os.getpid).values())  # type: ignore[attr-defined]
    os.kill(pids[0], signal.SIGKILL)
    np.testing.assert_allclose(placed(*inputs), expected, rtol=1e-6, atol=1e-6)


def test_more_workers_than_rows_and_other_sizes(client: object) -> None:
    module, v, w = structir.parse(MLP), floats(32, 64), floats(64, 16, seed=1)
    report = search(
        module,
        workers=6,
        sizes={"n": 9},
        weights=["v", "w"],
        mesh=(6,),
        stages=1,
        cuts={"h": 0, "y": 0},
    )
    placed = report.program.on(client, v=v, w=w)
    for rows in (2, 9):
        x = floats(rows, 32)
        expected = structir.compile(module)["main"](x, v, w)
        np.testing.assert_allclose(placed(x), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(ShapeMismatchError, match="x: expected dtype float32, found float64"):
        placed(x.astype("float64"))
    with pytest.raises(StructIRError, match="missing: w; not weights: u"):
        report.program.on(client, v=v, u=w)


def test_the_error_of_a_worker_has_the_location_of_the_program(client: object) -> None:
    text = """
@R.function
def main(x: R.Tensor((8,), "float32")):
    z = R.call_pure_packed("nowhere", x, sinfo_args=(R.Tensor((8,), "float32"),))
    return z
"""
    report = search(structir.parse(text, "model.py"), workers=2, stages=1)
    with pytest.raises(StructIRError, match=r"worker \(0,\).*of main at model.py:3.*nowhere"):
        report.program.on(client)(floats(8))


def test_rows_of_a_ragged_tensor_on_workers(client: object) -> None:
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", "*", 4), "float32"), w: R.Tensor((4, 4), "float32")):
    y = R.matmul(R.nn.softmax(x, axis=1), w)
    return (y, R.sum(y, axis=1))
""")
    x, w = structir.RaggedArray(floats(60, 4), [0, 20, 20, 33, 60]), floats(4, 4)
    rows, sums = structir.interpret(module, "main", x, w)
    report = search(module, workers=4, sizes={"x": [20, 0, 13, 27]}, weights=["w"], stages=1)
    whole = shard(module, workers=3)
    for actual in (report.program.on(client, w=w)(x), whole.compute(x, w, client=client)):
        np.testing.assert_allclose(actual[0].values, rows.values, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(actual[0].offsets, x.offsets)
        np.testing.assert_allclose(actual[1], sums, rtol=1e-5, atol=1e-6)
