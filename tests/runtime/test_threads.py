"""Kernels shared by threads: equal results for any number of callers, and after a fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.interpret.arguments import random_arguments
from structir.ir import dims
from structir.loops.program.cost import LENGTH, work_of
from structir.runtime.plans import plan
from structir.runtime.plans.plan import chunk_of
from structir.script import I, R
from structir.targets.cpu.threads import physical_cores, pool_of
from structir.targets.cpu.tiles import tile_shapes
from tests.loops.test_random_graphs import SIZES, Graph

THREADS = 3


@pytest.fixture(autouse=True)
def all_work_is_shared(monkeypatch):
    monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", 0)
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


def test_executables_and_callers_share_one_pool():
    many = [structir.compile(Module, num_threads=THREADS)["main"] for _ in range(3)]
    x, w = floats(64, 30), floats(30, 20)

    def call(main):
        for _ in range(20):
            main(x, w)

    callers = [threading.Thread(target=call, args=(many[k % 3],)) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    workers = [t for t in threading.enumerate() if t.name.startswith("structir-")]
    assert len(workers) == pool_of(THREADS).workers
    assert len(workers) < 8


def test_chunks_cover_a_range_and_leave_none_idle(monkeypatch):
    monkeypatch.setattr(plan, "CHUNK_MULTIPLE", 64)
    assert chunk_of(1, 2) == 0
    assert chunk_of(12, 2) == 2
    assert chunk_of(10**6, 2) % 64 == 0
    for length in (2, 3, 63, 64, 65, 127, 1000):
        for threads in (2, 3, 8):
            chunk = chunk_of(length, threads)
            assert -(-length // chunk) >= min(length, threads)
    assert chunk_of(144, 2) == 18  # and not 64, of which one thread would have two


def test_few_rows_of_a_product_are_split_evenly(monkeypatch):
    monkeypatch.setattr(plan, "CHUNK_MULTIPLE", 64)
    assert [chunk_of(n, 2, True) for n in (2, 7, 8, 16, 100)] == [0, 0, 4, 8, 50]
    assert chunk_of(10**6, 2, True) == chunk_of(10**6, 2)
    assert [chunk_of(n, 2, 8) for n in (2, 7, 8, 16, 100)] == [1, 4, 4, 8, 25]


def test_the_rows_of_a_product_are_those_that_the_range_splits():
    weights = np.ones((64, 64), np.float32)
    text = """
@R.function
def main(x: R.Tensor(("n", 64), "float32"), q: R.Tensor(("h", 9, 64), "float32")):
    y = R.matmul(x, metadata["w"])
    return R.exp(y), R.matmul(q, R.permute_dims(q, (0, 2, 1)))
"""
    module = structir.parse(text, constants={"w": weights})
    main = structir.compile(module, num_threads=2)
    main["main"](floats(50, 64), floats(5, 9, 64))
    (region,) = main._regions["main"]
    bound = region._bound.latest()[0]
    assert {*bound.works[1]} == {1, tile_shapes("float32")[0].rows[0]}


def test_waking_threads_is_worth_a_long_kernel_or_many(monkeypatch):
    monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", 10)
    assert plan.shared_from([9] * 100) == plan.shared_from([30]) == 10 * plan.ALONE
    assert plan.shared_from([15] * 10) == 10


@pytest.mark.parametrize(
    "expression",
    ["R.nn.softmax(x)", "R.matmul(x, R.ones((64, 64), 'float32'))", "R.nn.gelu(x)"],
)
def test_estimated_work_grows_with_the_sizes(expression):
    text = f'@R.function\ndef main(x: R.Tensor(("n", 64), "float32")):\n    return {expression}\n'
    executable = structir.compile(structir.parse(text), num_threads=THREADS)
    works = [work_at(executable, floats(n, 64)) for n in (400, 800, 8000)]
    assert 1.7 * works[0] < works[1] < 2.3 * works[0]
    assert 15 * works[0] < works[2] < 25 * works[0]


@pytest.mark.parametrize(
    "body", ["R.nn.softmax(x, axis=1)", "R.sum(x, axis=1)", "R.concat((x, x), axis=1)"]
)
def test_estimated_work_of_ragged_rows_is_that_of_their_values(body, monkeypatch):
    text = f'@R.function\ndef main(x: R.Tensor(("n", "*"), "float32")):\n    return {body}\n'
    function, works = structir.compile(structir.parse(text), num_threads=2)["main"], list[float]()
    monkeypatch.setattr(plan, "shared_from", lambda times: works.extend(times) or 0)
    totals = []
    for length, count in ((64, 16_000), (1_000, 1_024)):
        values = np.zeros(length * count, "float32")
        works.clear()
        function(structir.RaggedArray(values, np.arange(count + 1) * length))
        totals.append(max(works))
    assert min(totals) > 15_000
    assert max(totals) < 4 * min(totals)


def work_at(executable, x):
    """The estimated nanoseconds of all kernels at the sizes of `x`."""
    executable["main"](x)
    (region,) = executable._regions["main"]
    bound = region._bound.latest()[0]
    return sum(bound.works[0])


def test_the_default_is_the_physical_cores_that_the_process_may_use(tmp_path, monkeypatch):
    monkeypatch.delenv("STRUCTIR_NUM_THREADS", raising=False)
    assert structir.compile(Module).num_threads == physical_cores()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 6}, raising=False)
    assert physical_cores(machine(tmp_path / "unlimited")) == 3
    for quota, cores in (("max", 3), ("200000", 2), ("150000", 1), ("20000", 1), ("900000", 3)):
        root = machine(tmp_path / quota)
        write(root / "sys/fs/cgroup/a/cpu.max", f"{quota} 100000")
        assert physical_cores(root) == cores
    for quota, cores in ((-1, 3), (210000, 2)):
        root = machine(tmp_path / f"version 1: {quota}")
        write(root / "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", 100000)
        write(root / "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", quota)
        assert physical_cores(root) == cores


def machine(root):
    """Writes what the kernel shows of eight CPUs in four cores, and of the process's cgroups."""
    for cpu in range(8):
        write(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", cpu // 2)
    write(root / "proc/self/cgroup", "3:cpuset:/a\n1:cpu,cpuacct:/a/b\n0::/a/b")
    return root


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")


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
from structir.runtime.plans import plan
plan.MIN_SHARED_NANOSECONDS = 0
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


def test_the_time_of_a_convolution_is_estimated_by_its_products():
    text = """
@R.function
def main(x: R.Tensor(("n", 64, 56, 56), "float32")):
    return R.nn.conv2d(x, metadata["w"], padding=1)
"""
    main = structir.compile(structir.parse(text, constants={"w": floats(64, 64, 3, 3)}))
    main["main"](floats(1, 64, 56, 56))
    (region,) = main._regions["main"]
    bound = region._bound.latest()[0]
    products = 64 * 64 * 9 * 56 * 56
    filtered = products * 16 / 36  # by minimal filtering
    assert 0.01 * filtered < max(bound.works[0]) < 0.05 * products


KERNEL = """
@I.kernel
def kernel(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"),
           out: R.Tensor(("n",), "float32")):
    low, high = T.part(n)
    {lines}
"""


def estimate(lines, **sizes):
    """The picoseconds of a kernel, of 1000 elements if not stated otherwise."""
    kernel = structir.parse(KERNEL.format(lines=lines.replace("\n", "\n    ")))["kernel"]
    symbols = {s.name: s for p in kernel.params for s in dims.syms(p.struct_info.dims[0])}
    values = {symbols["n"]: 1000, symbols["m"]: 1000} | {symbols[k]: v for k, v in sizes.items()}
    return work_of(kernel, values, [*values.values()], values[symbols["n"]]).picoseconds


def test_operations_of_a_statement_are_counted_once_and_strides_are_slow():
    def of_value(value):
        return estimate(f"for i in range(low, high):\n    out[i] = {value}")

    copied = of_value("x[i]")
    assert of_value("x[i] * 2.0 + y[0]") > copied == of_value("x[3 + i]")
    assert of_value("x[i] + x[i]") == of_value("x[i] + 1.0")
    assert of_value("x[2 * i]") > 5 * copied


LOOP = "for {head}:\n    out[i] = x[i]"
# lines, and the picoseconds of an element times the expected iterations
ESTIMATES = {
    "the whole range": (LOOP.format(head="i in range(low, high)"), 40 * 1000),
    "backwards": (LOOP.format(head="i in range(high - 1, low - 1, -1)"), 40 * 1000),
    "steps": (LOOP.format(head="i in range(low, high, 16)"), 40 * 63),
    "no iteration": (LOOP.format(head="i in range(high, low)"), 0),
    "known numbers": ("k = min(m, 30) // 4\n" + LOOP.format(head="i in range(k)"), 300 + 300 + 280),
    "a size of 0": (LOOP.format(head="i in range(n // (m - m))"), 40 * 1000),
    "of data": (LOOP.format(head="i in range(T.int64(x[0]))"), 40 * 8),
    "blocks": (
        "for j in range(low, high, 100):\n    stop = min(j + 100, high)\n"
        + LOOP.format(head="i in range(j, stop)").replace("\n", "\n    ").join(["    ", ""]),
        10 * (300 + 300 + 40 * 100),
    ),
    "the longer side": (
        "if low < 3:\n    out[0] = T.exp(x[0])\nelse:\n    out[0] = x[0]",
        300 + 3 * 300 + 3000,
    ),
}


@pytest.mark.parametrize(("lines", "expected"), ESTIMATES.values(), ids=ESTIMATES)
def test_estimates(lines, expected):
    assert estimate(lines) == pytest.approx(300 + expected, abs=301)


def test_estimates_are_sizes_of_the_caller():
    n, m = dims.sym("a") * 2, dims.sym("b")
    lines = "for j in range(m):\n    for i in range(low, high):\n        out[i] = x[i] + y[j]"
    assert dims.syms(estimate(lines, n=n, m=m)) == {*dims.syms(n), *dims.syms(m)}
    assert LENGTH not in dims.syms(estimate(lines, n=n, m=m))


def test_a_plan_whose_kernels_are_too_short_to_share_starts_no_threads(monkeypatch):
    started = []
    monkeypatch.setattr(plan, "pool_of", lambda threads: started.append(threads))
    x, w = np.ones((200, 200), "float32"), np.ones((200, 3), "float32")
    expected = structir.interpret(Module, "main", x, w)
    for least, pools in ((1e12, []), (0, [THREADS])):
        monkeypatch.setattr(plan, "MIN_SHARED_NANOSECONDS", least)
        result = structir.compile(Module, num_threads=THREADS)["main"](x, w)
        np.testing.assert_allclose(result, expected, rtol=1e-4)
        assert started == pools
