"""Large results with non-temporal stores equal all others, for any start and end."""

from typing import Any

import numpy as np
import pytest

import structir
from structir.loops.emit import streams
from structir.loops.kernel import by_recipe
from structir.loops.program.buffer import LARGE
from structir.runtime.outline import outline
from structir.runtime.plans.results import ResultMemory
from structir.script import I, R

Array = np.ndarray[Any, np.dtype[Any]]
ENOUGH = LARGE // 4


@I.ir_module
class Maps:
    @R.function
    def single(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function
    def double(x: R.Tensor(("n",), "float64"), y: R.Tensor(("n",), "float64")):
        return x * y + x

    @R.function
    def pair(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            y = x + x
            z = R.exp(y)
            R.output(y, z)
        return (y, z)

    @R.function
    def softmax(x: R.Tensor(("n", "k"), "float32")):
        return R.nn.softmax(x)

    @R.function
    def with_total(x: R.Tensor(("n", "k"), "float32")):
        with R.dataflow():
            y = x * x
            total = R.sum(y, axis=[1])
            R.output(y, total)
        return (y, total)


@pytest.fixture(scope="module", params=[1, 2])
def compiled(request: pytest.FixtureRequest) -> Any:
    return structir.compile(Maps, num_threads=request.param)


def numbers(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(0).random(shape, np.float32).astype(dtype)


def test_the_kernel_of_a_large_result_streams_and_that_of_a_small_one_does_not() -> None:
    text = '@R.function\ndef main(x: R.Tensor((SIZE,), "float32")):\n    return R.exp(x)\n'
    codes = [
        code_of_map(structir.parse(text.replace("SIZE", size)), "main")
        for size in ('"n"', "1000", str(ENOUGH))
    ]
    assert ["!nontemporal" in code for code in codes] == [True, False, True]


def code_of_map(module: Any, name: str) -> str:
    """Returns the LLVM IR of the kernel of a function."""
    (kernel,) = outline(module, name).kernels
    return str(kernel.text.code.assembled.text)


@pytest.mark.parametrize("gains", [True, False])
def test_much_work_on_elements_asks_ahead_for_them_where_that_is_a_gain(
    gains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRUCTIR_CACHE", "off")
    monkeypatch.setattr(by_recipe, "_templates", {})
    monkeypatch.setattr(streams, "gains_from_prefetching", lambda: gains)
    asked = ["llvm.prefetch" in code_of_map(Maps, name) for name in ("single", "double")]
    assert asked == [gains, False]
    compiled = structir.compile(Maps)
    x = numbers(ENOUGH + 37)
    np.testing.assert_allclose(compiled["single"](x), np.exp(x), rtol=1e-6)


def test_rows_stream_only_if_they_are_whole_lines_or_long() -> None:
    text = '@R.function\ndef main(x: R.Tensor(("n", SIZE), "float32")):\n    return R.nn.softmax(x)'
    for size, is_streamed in {"384": 1, "388": 0, "1000": 0, "4096": 1, '"k"': 1}.items():
        code = code_of_map(structir.parse(text.replace("SIZE", size)), "main")
        assert ("!nontemporal" in code) == is_streamed, size


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_results_start_where_no_load_waits_for_a_store(dtype: str) -> None:
    """A load within 256 bytes behind a store, counted within a page, waits for it."""
    memory = ResultMemory()
    for _ in range(3):
        made = memory.new((LARGE // np.dtype(dtype).itemsize,), dtype)
        assert made.ctypes.data % 4096 == 0


@pytest.mark.parametrize("behind", [0, 16, 48, 64, 128, 256, 2048, -64])
@pytest.mark.parametrize("name", ["single", "double", "rows"])
def test_results_at_any_distance_from_operands(compiled: Any, name: str, behind: int) -> None:
    """Whichever way stores go, by the distance within a page: the same numbers."""
    x = shifted(numbers(ENOUGH + 64), 64)
    if name == "double":
        x = shifted(x.astype("float64"), 64)
    elif name == "rows":
        x = x[:ENOUGH].reshape(-1, 32)
    args = (x, x) if name == "double" else (x,)
    out = shifted(np.zeros_like(x), 64 + behind)
    compiled[{"rows": "softmax"}.get(name, name)](*args, out=out)
    few = [a[:4000] for a in args]
    np.testing.assert_array_equal(out[:4000], compiled[{"rows": "softmax"}.get(name, name)](*few))


def shifted(array: Array, offset: int) -> Array:
    """A copy that starts so many bytes after a page."""
    room = np.empty(array.nbytes + 3 * 4096, np.uint8)
    start = -room.ctypes.data % 4096 + 4096 + offset
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


@pytest.mark.parametrize("offset", [0, 1, 4, 15])
def test_a_large_result_may_start_anywhere_in_memory(compiled: Any, offset: int) -> None:
    x = numbers(ENOUGH + 37)
    room = np.full(x.size + 32, 7, np.float32)
    out = room[offset : offset + x.size]
    assert compiled["single"](x, out=out) is out
    np.testing.assert_array_equal(
        out, np.concatenate([compiled["single"](p) for p in np.split(x, [999])])
    )
    assert np.all(room[:offset] == 7) and np.all(room[offset + x.size :] == 7)


def test_results_of_other_dtypes_and_several_results(compiled: Any) -> None:
    x, y = numbers(ENOUGH, dtype="float64"), numbers(ENOUGH, dtype="float64") + 1
    np.testing.assert_allclose(compiled["double"](x, y), x * y + x, rtol=1e-15)
    x = numbers(ENOUGH + 3)
    twice, raised = compiled["pair"](x)
    np.testing.assert_array_equal(twice, x + x)
    np.testing.assert_array_equal(raised, compiled["single"](x + x))


@pytest.mark.parametrize("width", [384, 100, 1000, 70000])
def test_rows_are_the_same_whether_there_are_few_or_many(compiled: Any, width: int) -> None:
    x = numbers(ENOUGH // width + 1, width)
    found = compiled["softmax"](x)
    np.testing.assert_array_equal(found[:5], compiled["softmax"](x[:5]))
    np.testing.assert_array_equal(found[-5:], compiled["softmax"](x[-5:]))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-4)


def test_a_sum_beside_a_large_result_is_the_same_for_few_rows(compiled: Any) -> None:
    x = numbers(ENOUGH // 1000 + 1, 1000)
    squares, totals = compiled["with_total"](x)
    few, few_totals = compiled["with_total"](x[:3])
    np.testing.assert_array_equal(squares, x * x)
    np.testing.assert_array_equal(squares[:3], few)
    np.testing.assert_array_equal(totals[:3], few_totals)
