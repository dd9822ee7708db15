"""Kernels shared by threads: equal results for any number of callers, and after a fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import structir
from structir.backend import plan
from structir.backend.plan import chunk_of
from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments
from structir.script import I, R
from tests.backend.test_random_graphs import SIZES, Graph

THREADS = 3


@pytest.fixture(autouse=True)
def all_work_is_shared(monkeypatch):
    monkeypatch.setattr(plan, "MIN_SHARED_ELEMENTS", 0)
    monkeypatch.setattr(plan, "CHUNK_MULTIPLE", 1)


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), w: R.Tensor(("k", "m"), "float32")):
        h = R.nn.gelu(R.matmul(x, w))
        return R.nn.softmax(h) + R.sum(h, axis=0)

    @R.function
    def attention(q: R.Tensor(("h", "s", 8), "float32"), k: R.Tensor(("h", "s", 8), "float32")):
        scores = R.nn.softmax(R.matmul(q, R.permute_dims(k, [0, 2, 1])))
        return R.matmul(scores, k)


@pytest.fixture(scope="module")
def executables():
    return structir.compile(Module), structir.compile(Module, num_threads=THREADS)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 64, 130])
@pytest.mark.parametrize("k", [1, 40])
def test_many_threads_give_the_results_of_one(executables, n, k):
    one, many = executables
    x, w = floats(n, k), floats(k, 50, seed=1)
    for _ in range(3):
        np.testing.assert_allclose(many["main"](x, w), one["main"](x, w), rtol=1e-5, atol=1e-5)
    q, keys = floats(k, n, 8), floats(k, n, 8, seed=1)
    wanted = one["attention"](q, keys)
    np.testing.assert_allclose(many["attention"](q, keys), wanted, rtol=1e-5, atol=1e-5)


def test_work_is_shared(executables):
    _, many = executables
    many["main"](floats(70, 40), floats(40, 50))
    (region,) = many._regions["main"]
    assert any(region._bound.latest()[0].chunks)
    assert threading.active_count() > THREADS - 1


@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed):
    module = Graph(seed).module(6)
    one = structir.compile(module)["main"]
    many = structir.compile(module, num_threads=THREADS)["main"]
    for sizes in SIZES:
        args = random_arguments(module["main"], seed, sizes)
        for _ in range(2):
            for found, wanted in zip(flat(many(*args)), flat(one(*args)), strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def test_many_callers_at_once(executables):
    _, many = executables
    wrong = []

    def work(seed):
        x, w = floats(60 + seed, 30, seed=seed), floats(30, 20, seed=seed)
        wanted = executables[0]["main"](x, w)
        for _ in range(40):
            if not np.allclose(many["main"](x, w), wanted, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_chunks_cover_a_range_and_leave_none_idle(monkeypatch):
    monkeypatch.setattr(plan, "CHUNK_MULTIPLE", 64)
    monkeypatch.setattr(plan, "MIN_SHARED_ELEMENTS", 1000)
    assert chunk_of(10**6, 999, 2) == 0
    assert chunk_of(1, 10**6, 2) == 0
    assert chunk_of(12, 10**6, 2) == 2
    assert chunk_of(10**6, 10**6, 2) % 64 == 0
    for length in (2, 3, 63, 64, 65, 127, 1000):
        for threads in (2, 3, 8):
            chunk = chunk_of(length, 10**6, threads)
            assert -(-length // chunk) >= min(length, threads)


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_wrong_number_is_refused(wrong):
    with pytest.raises(
        StructIRError, match=f"num_threads must be a positive integer, found {wrong}"
    ):
        structir.compile(Module, num_threads=wrong)


def test_the_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("STRUCTIR_NUM_THREADS", "2")
    assert structir.compile(Module).num_threads == 2
    assert structir.compile(Module, num_threads=1).num_threads == 1
    monkeypatch.setenv("STRUCTIR_NUM_THREADS", "many")
    with pytest.raises(StructIRError, match="must be a positive integer, found 'many'"):
        structir.compile(Module)


FORKED = """
import os, numpy as np, structir
from structir.backend import plan
plan.MIN_SHARED_ELEMENTS = 0
main = structir.compile(structir.parse('''
@R.function
def main(x: R.Tensor(("n",), "float32")):
    return R.exp(x)
'''), num_threads=3)["main"]
x = np.linspace(0, 1, 1000, dtype=np.float32)
main(x), main(x)
child = os.fork()
for _ in range(50):
    np.testing.assert_allclose(main(x), np.exp(x), rtol=1e-5)
x = x[:500]
np.testing.assert_allclose(main(x), np.exp(x), rtol=1e-5)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_threads_of_its_own():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "both\n"
