"""Arenas are cached for the latest sizes only."""

import threading

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError
from structir.runtime.compiled_function import CompiledFunction
from structir.runtime.plans import plan
from structir.targets.cpu.layouts import SPACE


def test_arenas_of_many_sizes_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(plan, "MAX_CACHED_BYTES", 100_000)
    executable = structir.compile(products())
    for n in (50, 100, 150, 200, 50, 200):
        x = np.ones((n, 60), np.float32)
        w = np.full((60, 60), 0.1, np.float32)
        np.testing.assert_allclose(executable["main"](x, w), np.exp(x @ w) @ w, rtol=1e-4)
    (region,) = executable._regions["main"]
    kept = region._bound.latest()
    assert 1 <= len(kept) < 4
    assert sum(bound.arena_bytes for bound in kept[1:]) <= 100_000


def test_calls_that_do_not_overlap_share_one_arena():
    executable = structir.compile(products())
    x, w = np.ones((50, 60), np.float32), np.full((60, 60), 0.1, np.float32)
    function = executable["main"]
    for _ in range(3):  # by Python, by compiled code, and by Python again: no dense input
        function(x, w)
        function(np.ones((60, 50), np.float32).T, w)
        with pytest.raises(ShapeMismatchError):
            function(x.astype("float64"), w)
    (region,) = executable._regions["main"]
    (bound,) = region._bound.latest()
    (space,) = bound.spaces_of_calls
    assert bound.free == [] and not space.words[SPACE.busy]
    first = bound.workspace()
    second = bound.workspace()
    assert first is space and second is not first
    np.testing.assert_allclose(function(x, w), np.exp(x @ w) @ w, rtol=1e-4)  # beside them
    bound.give_back(first)
    assert bound.workspace() is first


def test_concurrent_calls_run_natively(monkeypatch):
    executable = structir.compile(products(), num_threads=1)
    function, python_calls = executable["main"], []
    x, w = np.ones((50, 60), np.float32), np.full((60, 60), 0.1, np.float32)
    expected = function(x, w)
    (region,) = executable._regions["main"]
    (bound,) = region._bound.latest()
    call = CompiledFunction._call
    monkeypatch.setattr(
        CompiledFunction, "_call", lambda *args: python_calls.append(args) or call(*args)
    )
    for count in range(1, 5):  # so many calls at once
        for space in bound.spaces_of_calls:
            space.words[SPACE.busy] = 1
        before = len(python_calls)
        for _ in range(3):
            np.testing.assert_array_equal(function(x, w), expected)
        assert len(python_calls) == before + 1
        assert len(bound.spaces_of_calls) == count + 1
    monkeypatch.setattr(plan, "MAX_SPACES", 5)
    for space in bound.spaces_of_calls:
        space.words[SPACE.busy] = 1
    np.testing.assert_array_equal(function(x, w), expected)
    assert len(bound.spaces_of_calls) == 5


@pytest.mark.parametrize("rows", [7, 300])
def test_threads_that_call_one_function_do_not_share_memory(rows):
    module = products()
    main = structir.compile(module, num_threads=2)["main"]
    w = floats(60, 60) * np.float32(0.1)
    inputs = [floats(rows, 60) * np.float32(0.1 + seed) for seed in range(8)]
    expected = [main(x, w) for x in inputs]
    strided = [np.asfortranarray(x) for x in inputs]
    wrong = []

    def call(k):
        for repeat in range(60):
            x = strided[k] if repeat % 3 == 2 else inputs[k]
            if not np.array_equal(main(x, w), expected[k]):
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def products():
    return structir.parse("""
@R.function
def main(x: R.Tensor(("n", 60), "float32"), w: R.Tensor((60, 60), "float32")):
    return R.matmul(R.exp(R.matmul(x, w)), w)
""")


def test_a_result_is_written_over_an_operand_that_dies_there():
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n", 60), "float32"), w: R.Tensor((60, 60), "float32")):
    a = R.matmul(x, w)
    b = R.nn.relu(R.matmul(a, w))
    c = R.nn.softmax(R.matmul(b, w) + a)
    return R.matmul(c, w)
""")
    executable = structir.compile(module)
    x, w = floats(70, 60), floats(60, 60) / 8  # else exp amplifies roundings
    wanted = structir.interpret(module, "main", x, w)
    np.testing.assert_allclose(executable["main"](x, w), wanted, rtol=2e-4, atol=1e-5)
    (made,) = executable.plans("main")
    values = [s for s in made.spans if not any(s.buffer in t.scratch for t in made.texts)]
    assert len(values) == 2, "a and b; c lies where a was"
    assert {(s.first, s.last) for s in values} == {(0, len(made.texts) - 1), (1, 2)}


def floats(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("float32")
