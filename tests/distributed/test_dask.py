"""Shards on Dask's workers: results, bytes, memory, lost workers. On four worker processes."""

import os
import signal
import threading
import time

import attrs
import numpy as np
import pytest

import structir
from structir.distributed import dask_executor, shard, worker
from structir.errors import StructIRError

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
array = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype="float32")


ROWS = """
@R.function
def main(x: R.Tensor(("n", 40), "float32"), b: R.Tensor((40,), "float32")):
    with R.dataflow():
        a = R.nn.softmax(x, axis=-1)
        c = R.add(a, b)
        R.output(c)
    return c
"""
IMAGES = """
@R.function
def main(x: R.Tensor((1, 2, "h", "w"), "float32"), k: R.Tensor((2, 2, 3, 3), "float32")):
    with R.dataflow():
        a = R.nn.conv2d(x, k, padding=1)
        c = R.nn.softmax(a, axis=-1)
        R.output(c)
    return c
"""


def test_workers_compute_the_result_of_the_function(client: object) -> None:
    module, args = structir.parse(ROWS), (floats(33, 40), floats(40))
    result = shard(module, grid=(4, 1)).compute(*args, client=client)
    np.testing.assert_array_equal(result, structir.compile(module)["main"](*args))


def test_tasks_share_the_cores_of_their_machine(
    client: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRUCTIR_NUM_THREADS", raising=False)
    monkeypatch.setattr(worker, "physical_cores", lambda: 8)
    assert dask_executor.concurrent_tasks(client) == 4
    assert [worker.threads_of_task(n) for n in (1, 2, 3, 8, 9, 64)] == [8, 4, 2, 1, 1, 1]
    module, x = structir.parse(ROWS), floats(33, 40)
    plan = shard(module, grid=(4, 1)).plan(x, floats(40))
    program = shard(module, grid=(4, 1)).shard_program(plan)
    state = worker.worker_state(attrs.evolve(program, concurrent_tasks=2))
    assert state.num_threads == 4
    monkeypatch.setenv("STRUCTIR_NUM_THREADS", "3")
    assert worker.threads_of_task(2) is None


def test_tasks_without_a_cluster_have_a_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_client() -> object:
        raise ValueError("no client")

    monkeypatch.setattr(distributed, "default_client", no_client)
    assert dask_executor.concurrent_tasks(None) == os.cpu_count()


def test_threads_compute_the_result_of_the_function() -> None:
    module, args = structir.parse(ROWS), (floats(33, 40), floats(40))
    result = shard(module, grid=(4, 1)).compute(*args, progress=True)
    np.testing.assert_array_equal(result, structir.compile(module)["main"](*args))


def test_results_stay_sharded_between_functions(client: object) -> None:
    rows, x, b = shard(structir.parse(ROWS), grid=(4, 1)), floats(33, 40), floats(40)
    first = rows.on_dask(x, b)
    assert first.chunks == ((8, 8, 8, 9), (40,))
    second = rows.on_dask(first, b)
    once = structir.compile(structir.parse(ROWS))["main"]
    np.testing.assert_array_equal(second.compute(), once(once(x, b), b))


def test_functions_with_different_grids_exchange_blocks(client: object) -> None:
    turned = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 40), "float32")):
    y = R.permute_dims(x)
    return y
""")
    rows, x, b = shard(structir.parse(ROWS), grid=(3, 1)), floats(33, 40), floats(40)
    result = shard(turned, grid=(5, 2)).on_dask(rows.on_dask(x, b)).compute()
    expected = structir.compile(structir.parse(ROWS))["main"](x, b).T
    np.testing.assert_array_equal(result, expected)


def test_tasks_receive_the_bytes_that_were_planned() -> None:
    from structir.distributed.worker import make_task, run_task

    sharded, args = shard(structir.parse(ROWS), grid=(4, 1)), (floats(33, 40), floats(40))
    plan = sharded.plan(*args)
    first = plan.shards[0]
    blocks = args[0][:9], args[1]  # one row too many
    with pytest.raises(StructIRError, match="shard 0: expected 1440 bytes, received 1600"):
        run_task(sharded.shard_program(plan), make_task(first), *blocks)


@pytest.mark.exhaustive
def test_tasks_of_a_lost_worker_run_again(client: object) -> None:
    module = structir.parse(IMAGES)
    x, k = floats(1, 2, 800, 600), floats(2, 2, 3, 3)
    expected = structir.compile(module)["main"](x, k)
    sharded = shard(module, grid=(1, 1, 16, 1))
    pids = list(client.run(os.getpid).values())  # type: ignore[attr-defined]
    killer = threading.Thread(target=lambda: (time.sleep(0.3), os.kill(pids[0], signal.SIGKILL)))
    killer.start()
    result = sharded.compute(x, k, client=client)
    killer.join()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert is_gone(pids[0])


def is_gone(pid: int) -> bool:
    """Waits until a killed process is reaped: a zombie still has its process id."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.exhaustive
def test_the_error_of_a_shard_is_raised_at_the_caller(client: object) -> None:
    text = """
@R.function
def main(x: R.Tensor((8,), "float32")):
    z = R.call_pure_packed("nowhere", x, sinfo_args=(R.Tensor((8,), "float32"),))
    return z
"""
    sharded = shard(structir.parse(text, "model.py"), grid=(2,))
    with pytest.raises(StructIRError, match=r"shard \d of main at model.py:3"):
        sharded.compute(floats(8), client=client)
