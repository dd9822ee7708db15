"""Plans with loops: native calls run them, and one instruction repeats steps that only run
kernels and copy values."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import StructIRError
from structir.runtime.plans import plan_cache as planned
from structir.runtime.plans import step_plan
from structir.runtime.plans.step_plan import NativeSpace, StepPlan, StepSpace
from structir.targets.cpu.bytecode import OPCODE

RNG = np.random.default_rng(3)
HEAD = "from structir.script import I, R, T\n\n\n@I.ir_module\nclass Module:\n"


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are planned when they are first called."""
    monkeypatch.setattr(planned.Plans, "was_seen", lambda self, key: True)


@pytest.fixture
def spaces(monkeypatch: pytest.MonkeyPatch) -> list[StepSpace]:
    """The memory of the plans that are made."""
    made: list[StepSpace] = []
    init = StepSpace.__init__

    def noting(self: StepSpace, plan: StepPlan) -> None:
        init(self, plan)
        made.append(self)

    monkeypatch.setattr(StepSpace, "__init__", noting)
    return made


def repeats(space: StepSpace) -> int:
    return int((space.words[:, 0] == OPCODE.repeat).sum())


def flat(value: Any) -> list[Any]:
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def same(got: Any, expected: Any) -> None:
    for one, other in zip(flat(got), flat(expected), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def check(text: str, *calls: tuple[Any, ...], threads: int = 1) -> Any:
    """Compares calls with the interpreter, by Python and natively; returns the executable."""
    module = structir.parse(HEAD + text)
    executable = structir.compile(module, num_threads=threads)
    for args in calls:
        expected = structir.interpret(module, "main", *args)
        for _ in range(3):
            same(executable["main"](*args), expected)
    return executable


PAIRS = """
    @R.function(private=True)
    def step(a: R.Tensor(("k",), "float32"), b: R.Tensor(("k",), "float32"),
             x: R.Tensor(("k",), "float32"), y: R.Tensor(("k",), "float32"),
             w: R.Tensor(("k",), "float32")):
        c = R.tanh(R.add(R.multiply(a, x), w))
        s = R.mean(R.multiply(b, y))
        d = R.tanh(R.add(R.divide(c, R.add(R.abs(s), R.const(1.0, "float32"))), x))
        return (b, R.add(d, a), s, c)

    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), y: R.Tensor(("n", "k"), "float32"),
             w: R.Tensor(("k",), "float32")):
        cls = Module
        z = R.scan(cls.step, (w, R.exp(w)), (x, y), (w,))
        return (z[0], z[1], z[2], z[3])
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("k", [1, 5, 16, 33, 9000])
def test_scans_of_pairs_with_outputs(k: int, threads: int, spaces: list[StepSpace]) -> None:
    calls = [(f32(n, k) * 0.3, f32(n, k) * 0.3, f32(k)) for n in (1, 2, 3, 40)]
    check(PAIRS, *calls, threads=threads)
    assert spaces and all([repeats(space) == 1 for space in spaces])


def test_scans_longer_than_a_pause() -> None:
    check(PAIRS, *[(f32(n, 3) * 0.3, f32(n, 3) * 0.3, f32(3)) for n in (255, 256, 257, 1030)])


NESTED = """
    @R.function
    def main(x: R.Tensor((6, 4), "float32"), limit: R.Tensor((), "float32"),
             trips: R.Tensor((), "int64")):
        @R.function
        def inner(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                  h: R.Tensor((6, 4), "float32"), g: R.Tensor((6, 4), "float32")):
            f = R.multiply(R.astype(i, "float32"), R.const(0.01, "float32"))
            h2 = R.add(R.multiply(g, R.const(0.5, "float32")), R.add(x, f))
            more = R.less(R.max(h2), limit)
            return (more, h2, h)
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 h: R.Tensor((6, 4), "float32")):
            m = R.call_pure_packed(
                "loop.iterate", inner, R.const(300, "int64"), R.const(True, "bool"), (h, x), (),
                R.str(""), sinfo_args=R.Tuple(
                    R.Tensor((6, 4), "float32"), R.Tensor((6, 4), "float32")))
            return (R.less(R.mean(m[0]), R.const(50.0, "float32")), R.subtract(m[0], m[1]))
        y = R.call_pure_packed(
            "loop.iterate", body, trips, R.const(True, "bool"), (x,), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor((6, 4), "float32")))
        return y
"""


def test_loops_in_loops_with_conditions(spaces: list[StepSpace]) -> None:
    calls = [
        (f32(6, 4), np.asarray(limit, "float32"), np.asarray(trips))
        for limit, trips in [(9, 3), (1e9, 2), (0.1, 40), (1e9, 1)]
    ]
    check(NESTED, *calls)
    assert spaces and all([repeats(space) == 1 for space in spaces])  # the inner loop


TWICE = """
    @R.function(private=True)
    def step(a: R.Tensor(("k",), "float32"), x: R.Tensor(("k",), "float32"),
             w: R.Tensor(("k", "k"), "float32")):
        b = R.tanh(R.matmul(w, a))
        c = R.tanh(R.matmul(w, b))
        d = R.tanh(R.matmul(w, c))
        return R.Tuple(R.add(d, x))

    @R.function
    def main(x: R.Tensor(("n", "k"), "float32"), a: R.Tensor(("k",), "float32"),
             w: R.Tensor(("k", "k"), "float32")):
        cls = Module
        z = R.scan(cls.step, (a,), x, (w,))
        return z[0]
""".replace("R.Tuple(R.add(d, x))", "(R.add(d, x),)")


def test_steps_that_run_one_plan_several_times() -> None:
    check(TWICE, *[(f32(n, 5), f32(5), f32(5, 5) * 0.3) for n in (1, 2, 30)])


def test_native_calls_of_scans_execute_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    args = f32(9, 4), f32(9, 4), f32(4)
    main = check(PAIRS, args)["main"]
    expected = main(*args)
    monkeypatch.setattr(StepPlan, "run", None)
    same(main(*args), expected)


def test_native_calls_of_new_sizes_run_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans for all sizes, too."""
    module = structir.parse(HEAD + UNKNOWN)
    main = structir.compile(module, num_threads=1)["main"]
    for n in (3, 4, 5, 600):
        x = f32(n)
        same(main(x), structir.interpret(module, "main", x))


UNKNOWN = """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        m = T.int64()
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 h: R.Tensor((), "float32")):
            return (going, R.add(R.multiply(h, R.const(0.5, "float32")), R.sum(x)))
        k = R.match_cast(R.nonzero(x), R.Tensor((1, m), "int64"))
        y = R.call_pure_packed(
            "loop.iterate", body, R.const(300, "int64"), (), (R.sum(x),), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor((), "float32")))
        return (y[0], k)
"""

ENDLESS = """
    @R.function
    def main(x: R.Tensor((8,), "float32"), limit: R.Tensor((), "float32")):
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 h: R.Tensor((8,), "float32")):
            h2 = R.add(R.multiply(h, R.const(0.5, "float32")), x)
            return (R.less(R.max(h2), limit), h2)
        y = R.call_pure_packed(
            "loop.iterate", body, (), R.const(True, "bool"), (x,), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor((8,), "float32")))
        return y
"""


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Handles interrupts, also in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def later(seconds: float, call: Callable[[], Any]) -> threading.Thread:
    """Calls a function in another thread, which needs the GIL."""

    def run() -> None:
        time.sleep(seconds)
        call()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_interrupts_end_native_loops(interrupts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros(8, "float32")
    main = structir.compile(structir.parse(HEAD + ENDLESS), num_threads=1)["main"]
    ends = np.asarray(-1.0, "float32")
    expected = [main(x, ends) for _ in range(2)]
    monkeypatch.setattr(StepPlan, "run", None)  # it is native from here on
    for _ in range(3):
        thread = later(0.2, lambda: signal.pthread_kill(main_thread, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            main(x, np.asarray(1.0, "float32"))
        thread.join()
        same(main(x, ends), expected[0])


main_thread = threading.main_thread().ident or 0


def test_native_loops_of_several_threads() -> None:
    """A loop without end does not keep other threads from calling the same function."""
    args = [(f32(50, 4) * 0.3, f32(50, 4) * 0.3, f32(4)) for _ in range(4)]
    main = check(PAIRS, args[0])["main"]
    expected = [main(*a) for a in args]
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for _ in range(200):
                same(main(*args[k]), expected[k])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_results_of_native_loops_are_new() -> None:
    args = f32(9, 4), f32(9, 4), f32(4)
    main = check(PAIRS, args)["main"]
    first = main(*args)
    before = [np.array(v) for v in flat(first)]
    main(*[a + 1 for a in args])
    gc.collect()
    same(first, tuple(before))


def test_tables_of_repeated_loops_equal_other_instructions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = f32(40, 6) * 0.3, f32(40, 6) * 0.3, f32(6)
    main = check(PAIRS, args)["main"]
    repeated = main(*args)
    monkeypatch.setattr(step_plan, "repeat_loops", lambda *_: [])
    for one, other in zip(repeated, check(PAIRS, args)["main"](*args), strict=True):
        np.testing.assert_array_equal(one, other)


FAILING = """
    @I.kernel
    def picked(x: R.Tensor(("n",), "float32"), i: R.Tensor((), "int64"),
               out: R.Tensor((), "float32")):
        out[()] = x[i[()]]

    @R.function(private=True)
    def step(a: R.Tensor((), "float32"), i: R.Tensor((), "int64"),
             x: R.Tensor(("n",), "float32")):
        y = R.call_kernel(Module.picked, (x, i), out_sinfo=R.Tensor((), "float32"))
        return (R.add(R.exp(y), a),)

    @R.function
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor(("m",), "int64")):
        cls = Module
        z = R.scan(cls.step, (R.const(0.0, "float32"),), i, (x,))
        return z[0]
"""


def test_kernels_that_fail_in_a_step(spaces: list[StepSpace]) -> None:
    x, indices = f32(5), np.arange(5)
    main = check(FAILING, (x, indices))["main"]
    assert repeats(spaces[-1]) == 1
    for _ in range(2):
        with pytest.raises(StructIRError, match="index 9 is out of range for axis 0"):
            main(x, np.where(indices == 3, 9, indices))
        assert np.isfinite(main(x, indices))


def test_plans_with_growing_values_have_no_native_space() -> None:
    assert NativeSpace  # of fixed memory
    text = ENDLESS.replace("h2)\n        y", "h2, h2)\n        y").replace(
        '(x,), (), R.str("")', '(x,), (R.shape([0, 8]),), R.str("float32")'
    )
    text = text.replace(
        'R.Tensor((8,), "float32")))', 'R.Tensor((8,), "float32"), R.Tensor("float32", ndim=2)))'
    )
    x = np.linspace(0, 1, 8, dtype="float32")
    check(text, *[(x, np.asarray(limit, "float32")) for limit in (1.2, 1.9, 1.99999, 0.1)])
