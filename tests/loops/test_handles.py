"""Schedules of kernels and of modules by handles."""

import time

import numpy as np
import pytest

import structir
from structir.loops.primitives import primitive_names, vectorise
from structir.loops.refusal import ScheduleError
from tests.loops.kernels import differs, kernel_of
from tests.loops.removed_checks import LINE

PROGRAM = """
@R.function
def main(x: R.Tensor(("n", "m"), "float32"), w: R.Tensor(("m", 8), "float32")):
    s = R.nn.softmax(x, axis=-1)
    y = R.matmul(s, w)
    return y
"""


def test_the_kernels_of_a_module_are_scheduled_by_name() -> None:
    module = structir.parse(PROGRAM)
    schedule = structir.schedule(module, "main")
    assert schedule.kernels == ["softmax", "matmul"]
    handle = schedule.kernel("y")
    assert handle is schedule["matmul"]
    outer, inner, terms = handle.loops
    handle.split(outer, 4)[inner].vectorise()
    handle[terms].split(3, tail="peel")
    assert handle.steps[0] == f"split('{outer}', 4)" and "T.vectorized(8)" in str(handle)
    x, w = (
        np.random.default_rng(s).random(shape, "float32") for s, shape in ((0, (5, 7)), (1, (7, 8)))
    )
    expected = structir.interpret(module, "main", x, w)
    scheduled = schedule.apply()
    assert np.allclose(structir.interpret(scheduled, "main", x, w), expected)
    assert np.allclose(structir.compile(scheduled)["main"](x, w), expected)


def test_a_handwritten_kernel_is_scheduled_alone() -> None:
    kernel = kernel_of(LINE, "for i in range(n):\n    out[i] = x[i] * 2.0")
    schedule = structir.schedule(kernel)
    schedule.kernel().split("i", 64).vectorise("i").parallel("i_0")
    after = schedule.apply()
    assert str(after) == str(schedule) and not differs(kernel, after)


def test_a_refusal_leaves_the_kernel_unchanged() -> None:
    schedule = structir.schedule(
        kernel_of(LINE, "for i in range(1, n):\n    out[i] = out[i - 1] + x[i]")
    )
    before = str(schedule.kernel())
    with pytest.raises(ScheduleError, match=r"(?s)E1116.*writes it.*reads it.*help:"):
        schedule.kernel().vectorise("i")
    assert str(schedule.kernel()) == before and schedule.kernel().steps == []


@pytest.mark.parametrize(
    ("use", "help"),
    [
        (lambda s: s.kernel("softmx"), "did you mean `softmax`?"),
        (lambda s: s.kernel("y").splt("i1", 2), "did you mean `split`?"),
        (lambda s: s.kernel("y").split("i11", 2), "did you mean `i1`?"),
        (lambda s: s.kernel("y")["nothing"], "the kernel has these"),
        (lambda s: s.kernel("y").split("i1", "2"), "pass int as `factor`"),
        (lambda s: s.kernel("y").split("i1"), "add the argument `factor`"),
        (lambda s: s.kernel("y").split("i1", 2, size=3), "write `split("),
        (lambda s: structir.schedule(structir.parse(PROGRAM), "man"), "the functions are main"),
    ],
)
def test_wrong_names_and_arguments_get_help(use: object, help: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        use(structir.schedule(structir.parse(PROGRAM), "main"))  # type: ignore[operator]
    assert raised.value.code == "E1115" and help in str(raised.value)


def test_notebooks_complete_kernels_loops_and_primitives() -> None:
    schedule = structir.schedule(structir.parse(PROGRAM), "main")
    assert set(schedule._ipython_key_completions_()) >= {"softmax", "matmul", "y"}
    handle = schedule["softmax"]
    assert handle._ipython_key_completions_() == handle.loops
    assert set(primitive_names()) <= set(dir(handle)) & set(dir(handle[handle.loops[0]]))


def test_primitives_of_a_row_kernel_take_less_than_a_millisecond() -> None:
    handle = structir.schedule(structir.parse(PROGRAM), "main")["softmax"]
    outer, times = handle.loops[0], []
    for _ in range(15):
        start = time.process_time()
        vectorise(handle.kernel, outer)
        times.append(time.process_time() - start)
    assert sorted(times)[7] < 1e-3  # 0.3 ms where it was written
