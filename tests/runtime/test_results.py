"""Memory of large results is recycled only after it is free."""

import gc
import threading

import numpy as np
import pytest

import structir
from structir.runtime.plans import results
from structir.runtime.plans.results import LARGE, ResultMemory

COUNT = LARGE // 4
counted = pytest.mark.skipif(not results.COUNTED, reason="references are not counted here")


def address(array):
    return array.__array_interface__["data"][0]


@counted
def test_memory_is_used_again_when_a_result_is_gone():
    memory = ResultMemory()
    first = memory.new((2, COUNT), "float32")
    place = address(first)
    other = memory.new((2, COUNT), "float32")
    assert address(other) != place
    del first
    assert address(memory.new((COUNT, 2), "float32")) == place
    assert address(memory.new((COUNT,), "float64")) == place  # whatever it holds
    assert address(memory.new((3, COUNT), "float32")) != place  # too small


@pytest.mark.sampled(3)
@counted
@pytest.mark.parametrize(
    "hold",
    [
        lambda a: a[3:5],
        lambda a: a.reshape(-1).view("int32")[::7],
        memoryview,
        lambda a: np.from_dlpack(a),
        lambda a: [a],
        lambda a: a.T,
        lambda a: lambda: a,
    ],
)
def test_every_view_of_a_result_holds_its_memory(hold):
    memory = ResultMemory()
    first = memory.new((COUNT // 8, 8), "float32")
    place, held = address(first), hold(first)
    del first
    assert address(memory.new((COUNT,), "float32")) != place
    del held
    gc.collect()
    assert place in {address(memory.new((COUNT,), "float32")) for _ in range(2)}


@counted
def test_the_pool_has_a_maximum_size():
    memory = ResultMemory(max_bytes=2 * LARGE)
    held = [memory.new((COUNT,), "float32") for _ in range(4)]
    for k, array in enumerate(held):
        array[:] = k
    assert sum(m.nbytes for m in memory._pool) <= 2 * LARGE
    assert all((array == k).all() for k, array in enumerate(held))
    assert memory.new((3 * COUNT,), "float32").nbytes == 3 * LARGE
    assert sum(m.nbytes for m in memory._pool) <= 2 * LARGE


def test_small_results_own_their_memory():
    assert ResultMemory().new((3, 4), "float32").base is None


def doubling():
    return structir.compile(
        structir.parse('@R.function\ndef main(x: R.Tensor(("n",), "float32")):\n    return x + x\n')
    )["main"]


def test_results_of_calls_are_independent():
    run = doubling()
    x = np.arange(COUNT, dtype="float32")
    first = run(x)
    second = run(first)
    assert not np.may_share_memory(first, second)
    place = address(first)
    third = run(second[: COUNT // 2])
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 4 * x)
    np.testing.assert_array_equal(third, 8 * x[: COUNT // 2])
    del first
    again = run(x)
    assert not results.COUNTED or address(again) == place
    np.testing.assert_array_equal(again, 2 * x)
    out = np.empty_like(x)
    assert run(x, out=out) is out
    np.testing.assert_array_equal(out, 2 * x)


def test_results_of_many_threads_are_independent():
    run = doubling()
    run(np.zeros(COUNT, "float32"))
    wrong = []

    def work(number):
        x = np.full(COUNT, number, "float32")
        for _ in range(6):
            found = run(x)
            if not (found == 2 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
