"""Fused kernels keep the results of programs; refusals name the ops of both kernels."""

from random import Random

import numpy as np
import pytest

import structir
from structir.ir import structural_equal
from structir.loops.schedule.refusal import ScheduleError
from tests.scheduling.programs import arguments, interpreted, random_program


def check_fusions(seed: int, compiles: bool = False) -> int:
    """Fuses random pairs of kernels; returns how many were fused."""
    rng = Random(seed)
    module = structir.parse(random_program(rng))
    s, count = structir.schedule(module), 0
    for _ in range(6):
        names = s._ipython_key_completions_()
        try:
            s.fuse(rng.choice(names), rng.choice(names), loops=rng.choice([0, 0, 1, 2]))
        except ScheduleError as error:
            assert all(d.hint and d.code for d in error.diagnostics), error
            continue
        count += 1
    fused = s.apply()
    again = structir.parse(fused.script())
    assert structural_equal(again, fused)
    for size in (1, 4):
        values = arguments(module["main"], size, seed)
        expected = interpreted(module, values)
        results = [interpreted(fused, values)]
        if compiles:
            results.append([np.asarray(r) for r in structir.compile(fused)["main"](*values)])
        for result in results:
            for one, other in zip(result, expected, strict=True):
                np.testing.assert_allclose(one, other, 1e-4, 1e-4)
    return count


def test_fusions_keep_the_results_of_random_programs() -> None:
    assert sum(map(check_fusions, range(6))) > 5


CHAIN = """
from structir.script import I, R, T

@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32")):
        a = R.nn.softmax(x)
        b = R.sum(a, axis=[0])
        c = R.sort(b)
        d = R.add(a, c)
        return d
"""


@pytest.mark.parametrize(
    ("first", "second", "loops", "message"),
    [
        ("a", "d", 1, "`R.sort at <string>:10:13` is computed from the first kernel"),
        ("a", "a", 1, "two different kernels"),
        ("a", "b", 1, "equal ranges"),
        ("b", "a", 3, "equal ranges"),
        ("a", "q", 1, "did you mean|the program has these"),
    ],
)
def test_refusals(first: str, second: str, loops: int, message: str) -> None:
    s = structir.schedule(structir.parse(CHAIN))
    before = s.apply().script()
    with pytest.raises(ScheduleError, match=message):
        s.fuse(first, second, loops=loops)
    assert s.apply().script() == before


def test_a_refused_loop_names_the_ops_of_both_kernels() -> None:
    s = structir.schedule(structir.parse(CHAIN))
    with pytest.raises(ScheduleError, match="equal ranges") as caught:
        s.fuse("a", "b")
    assert "first kernel: R.nn.softmax at <string>:8:13" in str(caught.value)
    assert "second kernel: R.sum at <string>:9:13" in str(caught.value)


def test_a_kernel_alone_is_not_fused() -> None:
    s = structir.schedule(structir.parse(CHAIN).functions["main"])
    (kernel, *_) = [f for f in s.apply().functions.values() if hasattr(f, "params")]
    with pytest.raises(ScheduleError, match="has no call"):
        structir.schedule(kernel).fuse(kernel.name, kernel.name)


HANDWRITTEN = """
from structir.script import I, R, T

@I.ir_module
class Own:
    @I.kernel
    def odd(x: R.Tensor(("k",), "float16"), out: R.Tensor(("k",), "float16")):
        k = T.int64()
        for i in range(1, k, 2):
            out[i] = x[i] * 3.14159

    @R.function
    def main(x: R.Tensor(("n",), "float16"), y: R.Tensor(("m",), "float16")):
        a = R.call_kernel(cls.odd, (x,), out_sinfo=R.Tensor(("n",), "float16"))
        b = R.call_kernel(cls.odd, (a,), out_sinfo=R.Tensor(("n",), "float16"))
        c = R.call_kernel(cls.odd, (y,), out_sinfo=R.Tensor(("m",), "float16"))
        return b, c
"""


def test_calls_of_one_kernel_are_fused_and_unwritten_elements_are_zero() -> None:
    module = structir.parse(HANDWRITTEN)
    s = structir.schedule(module)
    with pytest.raises(ScheduleError, match="expected one call of `odd`, found 3"):
        s.fuse("odd", "b")
    handle = s.fuse("a", "b")
    assert "T.zeros" in str(handle) and "fused on request" in str(s.explain())
    with pytest.raises(ScheduleError, match="equal ranges"):
        s.fuse("b", "c")
    assert "odd" in s.apply().functions
    x, y = (np.linspace(-2, 5, n).astype("float16") for n in (7, 4))
    for one, other in zip(
        structir.interpret(s.apply(), "main", x, y),
        structir.interpret(module, "main", x, y),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    s.fuse("b", "c", loops=0)
    run = structir.compile(s.apply())["main"]
    for one, other in zip(run(x, y), structir.interpret(module, "main", x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)
