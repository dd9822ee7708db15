"""Native calls give the same results, and pass every unusual call to the general path."""

import ctypes
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.runtime.compiled_function import CompiledFunction
from structir.runtime.plans.native_call import native_call
from structir.runtime.plans.plan import MAX_CACHED_PLANS
from structir.runtime.plans.planned_function import PlannedFunction
from structir.runtime.plans.sized_plan import SizedPlan
from structir.script import I, R
from structir.targets.cpu.layouts import layouts_hold
from structir.targets.cpu.tuples import MAX_DEPTH


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n", "m"), "float32")):
        return R.exp(x) * y

    @R.function
    def two(x: R.Tensor(("n",), "float32")):
        return (R.exp(x), R.sum(x, axis=0))

    @R.function
    def none() -> R.Tensor((3,), "float32"):
        return R.zeros(R.shape([3]), "float32")


@pytest.fixture(scope="module")
def executable():
    return structir.compile(Module)


@pytest.fixture(scope="module")
def main(executable):
    return executable["main"]


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def check(function, x, y, **given):
    result = function(x, y, **given)
    np.testing.assert_allclose(result, np.exp(x) * y, rtol=1e-5)
    return result


def test_it_is_native_here(main):
    assert layouts_hold() == (type(main).__name__ == "builtin_function_or_method")
    assert main.__name__ in ("main", "__call__")


def test_sizes_known_and_new_in_any_order(main):
    rng = np.random.default_rng(3)
    for n, m in rng.integers(0, 5, (60, 2)):
        check(main, floats(n, m), floats(n, m, seed=1))


def test_more_sizes_than_are_remembered(main):
    for _ in range(2):
        for n in range(MAX_CACHED_PLANS + 10):
            check(main, floats(n, 3), floats(n, 3, seed=1))


@pytest.mark.parametrize(
    "unusual",
    [
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.T.copy().T,
        lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
        lambda x: x.astype(">f4"),
        lambda x: x.view(type("Mine", (np.ndarray,), {})),
        lambda x: x.tolist(),
    ],
    ids=["backwards", "columns", "unaligned", "swapped", "subclass", "list"],
)
def test_unusual_arrays_give_the_same(main, unusual):
    x, y = floats(4, 6), floats(4, 6, seed=1)
    check(main, x, y)
    wanted = np.exp(x) * y
    np.testing.assert_allclose(main(unusual(x), y), wanted, rtol=1e-5)
    np.testing.assert_allclose(main(x, unusual(y)), wanted, rtol=1e-5)


def test_invalid_calls_after_valid_ones_are_reported(main):
    x = floats(4, 6)
    check(main, x, x)
    with pytest.raises(ShapeMismatchError, match="expected dtype float32, found float64"):
        main(x, x.astype(np.float64))
    with pytest.raises(ShapeMismatchError, match="parameter y: axis 1"):
        main(x, floats(4, 5))
    with pytest.raises(StructIRError, match="expected 2 arguments, found 1"):
        main(x)
    with pytest.raises(StructIRError, match="unexpected keyword argument `z`"):
        main(x, z=x)
    assert np.array_equal(main(y=x, x=x), main(x, x))
    with pytest.raises(ShapeMismatchError, match="a tensor"):
        main(x, None)


def test_out_is_returned_and_filled(main):
    x, y = floats(4, 6), floats(4, 6, seed=1)
    for _ in range(2):  # the first call binds the sizes, the second is native
        out = np.zeros((4, 6), np.float32)
        assert check(main, x, y, out=out) is out


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((4, 5), np.float32),
        np.zeros((4, 6), np.float64),
        np.zeros((6, 4), np.float32).T,
        np.frombuffer(bytes(96), np.float32).reshape(4, 6),
        [[1.0]],
    ],
    ids=["shape", "dtype", "strides", "read-only", "list"],
)
def test_an_unfit_out_is_refused(main, out):
    x = floats(4, 6)
    check(main, x, x)
    with pytest.raises(ShapeMismatchError, match="main: out"):
        main(x, x, out=out)


@pytest.mark.parametrize("shift", [0, 1, 5, 24])
def test_out_may_overlap_an_input(main, shift):
    memory = floats(60)
    x, out = memory[12:36].reshape(4, 6), memory[12 + shift : 36 + shift].reshape(4, 6)
    y = floats(4, 6, seed=1)
    check(main, x, y)
    wanted = np.exp(x) * y
    assert main(x, y, out=out) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_two_results(executable):
    for n in (3, 3, 7):
        x = floats(n)
        first, second = executable["two"](x)
        np.testing.assert_allclose(first, np.exp(x), rtol=1e-5)
        np.testing.assert_allclose(second, x.sum(), rtol=1e-4)


def test_results_overlapping_each_other_are_refused(executable):
    x, memory = floats(5), np.zeros(6, np.float32)
    with pytest.raises(ShapeMismatchError, match="arrays 0 and 1, which overlap"):
        executable["two"](x, out=(memory[:5], memory[4:5].reshape(())))
    assert not memory.any()


def test_no_arguments(executable):
    for _ in range(2):
        np.testing.assert_array_equal(executable["none"](), np.zeros(3))


def test_reference_counts_are_balanced(main):
    x = floats(3, 4)
    y, out = x.copy(), np.empty_like(x)
    main(x, y)
    before = [sys.getrefcount(v) for v in (x, y, out, x.dtype)]
    for _ in range(100):
        main(x, y)
        main(x, y, out=out)
    after = [sys.getrefcount(v) for v in (x, y, out, x.dtype)]
    assert [a - b for a, b in zip(after, before, strict=True)] == [0, 0, 0, 0]


def test_an_unreferenced_executable_is_freed():
    executable = structir.compile(Module)
    executable["main"](floats(2, 2), floats(2, 2))
    gone = weakref.ref(executable.direct["main"])
    del executable
    gc.collect()
    assert gone() is None


def test_many_threads_with_large_and_small_arrays(main):
    wrong = []

    def work(seed):
        for n in (3, 300, 5, 200, 3, 400) * 5:
            x, y = floats(n, 100, seed=seed), floats(n, 100, seed=seed + 1)
            if not np.allclose(main(x, y), np.exp(x) * y, rtol=1e-4):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def definition_of(function):
    """Returns the address that a builtin function has of its definition."""
    return ctypes.c_int64.from_address(id(function) + 16).value


@pytest.mark.skipif(not layouts_hold(), reason="calls are not native here")
def test_a_definition_is_there_while_its_function_is():
    main = structir.compile(Module)["main"]
    table = main.__self__
    start = table.ctypes.data
    assert start < definition_of(main) < start + table.nbytes
    vars(table).clear()  # as the garbage collector does before it frees the function
    others = [bytes([255]) * size for size in range(8, 64)]  # which take freed memory
    assert (main.__name__, main.__doc__) == ("main", "main(*arrays, out=None)")
    assert len(others) == 56


COUNTED = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("k",), "float32")):
    k = T.int64()
    positions = R.nonzero(x)
    R.require("k < 9")
    return positions, R.take(y, R.const([0, 2], "int64"), axis=0), R.exp(y)

@R.function
def one(x: R.Tensor(("n",), "bool")):
    return R.nonzero(x)
"""


@pytest.fixture(scope="module")
def counted():
    return structir.parse(COUNTED)


def test_plans_for_all_sizes_are_native(counted, monkeypatch):
    executable, runs, run = structir.compile(counted, num_threads=1), [], SizedPlan.run
    monkeypatch.setattr(SizedPlan, "run", lambda *args: runs.append(args) or run(*args))
    main, one = executable["main"], executable["one"]
    shapes = [(3, 4), (1, 1), (0, 5), (5, 0), (17, 15), (2, 3), (16, 40)]
    for index, shape in enumerate([*shapes, *shapes, (300, 200), (4, 2)]):
        x = np.random.default_rng(index % len(shapes)).integers(0, 2, shape).astype(np.float32)
        given = (x, floats(4)) if index % 4 else (x.T, floats(8)[::2])
        results, wanted, before = (
            main(*given),
            structir.interpret(counted, "main", *given),
            len(runs),
        )
        for result, expected in zip(results, wanted, strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-6)
        mask = x.ravel() > 0
        np.testing.assert_array_equal(one(mask), np.flatnonzero(mask)[None])
        is_repeated = layouts_hold() and len(shapes) <= index < 2 * len(shapes)
        assert not is_repeated or len(runs) == before  # a larger one was called before
    for _ in range(2):
        with pytest.raises(ShapeMismatchError):
            main(floats(2, 2), floats(1))
        with pytest.raises(ShapeMismatchError):
            main(floats(2, 2), floats(9))
    with pytest.raises(StructIRError):
        main(floats(2, 2), floats(4).astype(np.float64))


def test_one_value_as_several_results_of_a_plan_for_all_sizes():
    """The memory of a large result is handed over once; the others are copies."""
    module = structir.parse("""
@R.function
def main(x: R.Tensor(("n",), "float32")):
    p = R.nonzero(x)
    e = R.exp(x)
    return p, R.reshape(p, (-1,)), p, e, R.reshape(e, (-1, 1)), x
""")
    main = structir.compile(module, num_threads=1)["main"]
    kept = []
    for size in (17, 20_000, 200_000, 20_000, 3):
        x = (np.random.default_rng(size).random(size) > 0.5).astype(np.float32)
        kept.append((main(x), structir.interpret(module, "main", x)))
    for results, wanted in kept:
        for result, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-6)
    assert not np.shares_memory(kept[2][0][0], kept[2][0][2])


def test_native_plans_for_all_sizes_are_independent(counted):
    one = structir.compile(counted, num_threads=1)["one"]
    masks = [np.random.default_rng(k).random(500 + 700 * k) < k / 8 for k in range(8)]
    wrong, results = [], [one(mask) for mask in masks]

    def call_often(k):
        for _ in range(50):
            if not np.array_equal(one(masks[k]), np.flatnonzero(masks[k])[None]):
                wrong.append(k)

    threads = [threading.Thread(target=call_often, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for result, mask in zip(results, masks, strict=True):  # later calls did not change them
        np.testing.assert_array_equal(result, np.flatnonzero(mask)[None])


NESTED = """
@R.function
def nested(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
    z = R.add(x, y)
    return (z, (R.exp(z), (R.sum(z),), R.multiply(x, y)))

@R.function
def branch(p: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n",), "float32"),
           R.Tensor((), "bool"))), y: R.Tensor(("n",), "float32")):
    q = p[1]
    if q[1]:
        z = (R.add(p[0], y), R.add(q[0], y))
    else:
        z = (R.exp(y), q[0])
    return ((z, R.sum(y)), y)

@R.function(private=True)
def step(a: R.Tensor(("k",), "float32"), x: R.Tensor(("k",), "float32")):
    return (R.add(R.multiply(a, x), R.mean(x)), a)

@R.function
def scanned(p: R.Tuple(R.Tensor(("n", "k"), "float32"), R.Tuple(R.Tensor(("k",), "float32")))):
    z = R.scan(step, (p[1][0],), p[0])
    return ((z[0],), (z[1],))
"""


@pytest.fixture(scope="module")
def trees():
    return structir.infer(structir.parse(NESTED))


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def form(value):
    return tuple(map(form, value)) if isinstance(value, tuple) else value.shape


def same(result, expected):
    assert form(result) == form(expected)
    for one, other in zip(flat(result), flat(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def calls_of_trees(n):
    x, y = floats(n), floats(n, seed=1)
    for flag in (True, False):
        yield "branch", ((x, (y, np.asarray(flag))), y)
    yield "nested", (x, y)
    yield "scanned", ((floats(n, 3), (floats(3),)),)


def test_tuples_of_arguments_and_results(trees, monkeypatch):
    executable = structir.compile(trees)
    calls = [call for n in (3, 7) for call in calls_of_trees(n)]
    expected = [structir.interpret(trees, name, *args) for name, args in calls]
    for _ in range(3):
        for (name, args), result in zip(calls, expected, strict=True):
            same(executable[name](*args), result)
    functions = {name: executable[name] for name, _ in calls}
    assert {type(f).__name__ for f in functions.values()} == {"builtin_function_or_method"}
    monkeypatch.setattr(CompiledFunction, "__call__", None)
    monkeypatch.setattr(PlannedFunction, "__call__", None)
    for (name, args), result in zip(calls, expected, strict=True):
        same(functions[name](*args), result)


def test_other_forms_of_tuples(trees):
    executable = structir.compile(trees)
    x, y = floats(4), floats(4, seed=1)
    flag = np.asarray(True)
    main = executable["branch"]
    expected = main((x, (y, flag)), y)
    for _ in range(3):
        same(main((x, (y, flag)), y), expected)
        same(main([x, [y, flag]], y), expected)
        same(main(p=(x, (y, True)), y=y), expected)
        for wrong in [(x, y), (x, (y,)), x, (x, (y, flag, flag)), None, (None, (y, flag))]:
            with pytest.raises(StructIRError):
                main(wrong, y)


def test_references_of_nested_tuples(trees):
    executable = structir.compile(trees)
    for name, args in calls_of_trees(5):
        for _ in range(3):
            executable[name](*args)
        arrays = flat(args)
        before = [sys.getrefcount(array) for array in arrays]
        for _ in range(200):
            result = executable[name](*args)
        del result
        assert [sys.getrefcount(array) for array in arrays] == before
        assert all([sys.getrefcount(array) <= 4 for array in flat(executable[name](*args))])


def test_tuples_nested_too_deeply():
    tree = 0
    for _ in range(MAX_DEPTH + 1):
        assert native_call("f", [], [(np.dtype("float32"), 1)], tree, print) is not None
        tree = (tree,)
    assert native_call("f", [], [(np.dtype("float32"), 1)], tree, print) is None


COPIES = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "DTYPE")):
    z = R.add(x, x)
    return (z, x, (y, y), z, R.const([1.0, 2.0], "float32"), R.reshape(z, (-1,)))
"""


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16"])
def test_results_that_are_operands_are_native(dtype, monkeypatch):
    module = structir.infer(structir.parse(COPIES.replace("DTYPE", dtype)))
    main = structir.compile(module)["main"]
    calls = [(floats(n, m), floats(m).astype(dtype)) for n, m in [(3, 4), (0, 2), (5, 1)]]
    for args in calls:
        for _ in range(2):
            same(main(*args), structir.interpret(module, "main", *args))
    monkeypatch.setattr(CompiledFunction, "__call__", None)
    for args in calls:
        result = main(*args)
        same(result, structir.interpret(module, "main", *args))
        arrays = flat(result)
        for k, array in enumerate(arrays):
            others = [*arrays[:k], *arrays[k + 1 :], *args]
            assert not any(np.shares_memory(array, other) for other in others)
