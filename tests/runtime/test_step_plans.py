"""Conditionals, calls and loops in one step plan give the results of the interpreter."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import ShapeMismatchError, StructIRError
from structir.runtime.plans import plan_cache as planned
from structir.runtime.plans.sized_plan import SizedPlan
from structir.runtime.plans.step_plan import LEFT, StepPlan
from structir.runtime.plans.trace import PlanTracer

RNG = np.random.default_rng(5)
HEAD = "from structir.script import I, R, T\n\n\n@I.ir_module\nclass Module:\n"


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are planned when they are first called."""
    monkeypatch.setattr(planned.Plans, "was_seen", lambda self, key: True)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run of a plan came to its end; all are called by Python."""
    ended: list[bool] = []

    def noting(run: Any) -> Any:
        def noted(self: Any, *args: Any) -> Any:
            value = run(self, *args)
            ended.append(value is not LEFT)
            return value

        return noted

    monkeypatch.setattr(StepPlan, "run", noting(StepPlan.run))
    monkeypatch.setattr(SizedPlan, "run", noting(SizedPlan.run))
    monkeypatch.setattr(StepPlan, "space_of_calls", None)
    monkeypatch.setattr(SizedPlan, "is_native", False)
    return ended


def flat(value: Any) -> list[Any]:
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def same(got: Any, wanted: Any) -> None:
    for mine, theirs in zip(flat(got), flat(wanted), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def agrees(text: str, *calls: tuple[Any, ...], threads: int = 1) -> Any:
    """The executable of a program that gives what the interpreter gives, at every call."""
    module = structir.parse(HEAD + text)
    executable = structir.compile(module, num_threads=threads)
    for args in calls:
        same(executable["main"](*args), structir.interpret(module, "main", *args))
    return executable


NESTED = """
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), a: R.Tensor((), "bool"), b: R.Tensor((), "bool")):
        n = T.int64()
        top = R.max(x)
        if a:
            y = R.exp(x)
            big = R.greater(top, R.const(1.0, "float32"))
            if b:
                z = R.multiply(y, top)
                r = (z, big)
            else:
                r = (x, big)
        else:
            s = R.astype(R.sum(R.abs(x)), "bool")
            r = (R.negative(x), s)
        h = r[0]
        g = r[1]
        w = R.nn.softmax(h, axis=-1)
        return (w, h, g, x)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_choices_within_choices(threads: int, runs: list[bool]) -> None:
    calls = [
        (f32(rows, 8), np.asarray(a), np.asarray(b))
        for rows in (3, 0, 5000, 3)
        for a in (True, False)
        for b in (True, False)
    ]
    agrees(NESTED, *calls, threads=threads)
    assert runs == [True] * len(calls)


def test_results_are_the_callers_own() -> None:
    executable = agrees(NESTED, (f32(2, 8), np.asarray(True), np.asarray(False)))
    x = f32(2, 8)
    first = executable["main"](x, np.asarray(True), np.asarray(False))
    kept = [np.array(value) for value in first]
    executable["main"](f32(2, 8), np.asarray(False), np.asarray(False))
    same(first, tuple(kept))
    first[1][:] = 7
    same(executable["main"](x, np.asarray(True), np.asarray(False)), tuple(kept))


CALLS = """
    @R.function(private=True)
    def clipped(v: R.Tensor(("k",), "float32"), limit: R.Tensor((), "float32")):
        top = R.max(v)
        over = R.greater(top, limit)
        if over:
            r = R.minimum(v, limit)
        else:
            r = v
        return r

    @R.function
    def main(x: R.Tensor(("n",), "float32"), limit: R.Tensor((), "float32")):
        cls = Module
        a = cls.clipped(x, limit)
        b = R.multiply(a, R.const(2.0, "float32"))
        c = cls.clipped(b, limit)
        d = R.concat((c, x))
        e = cls.clipped(d, limit)
        return (a, e)
"""


def test_functions_are_part_of_the_plan_of_their_caller(runs: list[bool]) -> None:
    agrees(CALLS, *[(f32(n), np.float32(limit)) for n in (4, 9) for limit in (0.1, 9.0)])
    assert runs == [True] * 4


SCANS = """
    @R.function(private=True)
    def cell(
        a: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32"), x: R.Tensor((4,), "float32"),
        w: R.Tensor((4,), "float32"),
    ):
        s = R.sum(x)
        up = R.greater(s, R.const(0.0, "float32"))
        if up:
            c = R.add(a, R.multiply(x, w))
            far = R.greater(R.max(c), R.const(2.0, "float32"))
            if far:
                r = (b, R.tanh(c))
            else:
                r = (b, c)
        else:
            r = (a, b)
        p = r[0]
        q = r[1]
        return (p, q, p, R.add(q, s), s)

    @R.function
    def main(x: R.Tensor(("t", 4), "float32"), w: R.Tensor((4,), "float32")):
        cls = Module
        zero = R.zeros((4,), "float32")
        one = R.exp(w)
        y = R.scan(cls.cell, (zero, one), x, (w,))
        last = R.add(y[0], y[1])
        return (last, y[2], y[3], y[4])
"""


def test_loops_whose_steps_choose_and_change_places(runs: list[bool]) -> None:
    agrees(SCANS, *[(f32(steps, 4), f32(4)) for steps in (1, 2, 7, 100)])
    assert runs and all(runs)


LOOPS = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), limit: R.Tensor((), "float32"),
             trips: R.Tensor((), "int64")):
        n = T.int64()
        @R.function
        def inner(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                  h: R.Tensor(("n", 3), "float32")):
            h2 = R.add(R.multiply(h, R.const(0.5, "float32")), x)
            return (going, h2, R.sum(h2, axis=[1]))
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 h: R.Tensor(("n", 3), "float32"), k: R.Tensor((), "int64")):
            m = R.call_pure_packed(
                "loop.iterate", inner, R.const(4, "int64"), (), (h,), (R.shape([0, n]),),
                R.str("float32"),
                sinfo_args=R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor((4, "n"), "float32")))
            h2 = m[0]
            top = R.max(m[1])
            small = R.less(top, limit)
            odd = R.equal(R.floor_mod(i, R.const(2, "int64")), R.const(1, "int64"))
            if odd:
                h3 = h
            else:
                h3 = R.add(h2, R.astype(k, "float32"))
            return (small, h3, i, h3, odd)
        y = R.call_pure_packed(
            "loop.iterate", body, trips, R.const(True, "bool"), (x, R.const(7, "int64")),
            (R.shape([0, n, 3]), R.shape([0])), R.str("float32 bool"),
            sinfo_args=R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor((), "int64"),
                               R.Tensor("float32", ndim=3), R.Tensor("bool", ndim=1)))
        return y
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_loops_in_loops_that_end_when_they_may(threads: int, runs: list[bool]) -> None:
    calls = [
        (f32(n, 3), np.float32(limit), np.asarray(trips))
        for n, limit, trips in [(2, 4, 90), (2, 1e9, 3), (2, 1e9, 200), (5, -9, 9), (2, 1, 0)]
    ]
    agrees(LOOPS, *calls, threads=threads)
    assert runs == [True] * 4 + [False]  # outputs of no step are the host's


GROWING = """
    @R.function
    def main(x: R.Tensor(("t", 5), "float32"), trips: R.Tensor((), "int64"),
             first: R.Tensor(("k",), "int64")):
        t = T.int64()
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 before: R.Tensor((), "int64"), out: R.Tensor(dtype="int64", ndim=1),
                 kept: R.Object):
            row = R.take(x, i, axis=0)
            best = R.argmax(row, axis=0)
            new = R.not_equal(best, before)
            if new:
                one = R.expand_dims(best, axis=[0])
                longer: R.Tensor(dtype="int64", ndim=1) = R.concat((out, one))
                both: R.Tensor(dtype="int64", ndim=1) = R.concat((longer, R.concat((one, one))))
                r = both
            else:
                r = out
            high = R.greater(R.max(row), R.const(0.5, "float32"))
            if high:
                more: R.Object = R.call_pure_packed("list.insert", kept, row, sinfo_args=R.Object)
                s = more
            else:
                s = kept
            return (going, best, RESULT, s)
        none: R.Object = R.call_pure_packed("list.empty", sinfo_args=R.Object)
        y = R.call_pure_packed(
            "loop.iterate", body, trips, (), (R.const(-1, "int64"), first, none), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor((), "int64"), R.Tensor(dtype="int64", ndim=1), R.Object))
        rows: R.Object = R.call_pure_packed(
            "list.stacked", y[2], R.const(0, "int64"), sinfo_args=R.Object)
        return (y[0], y[1], y[2], rows)
"""


def growing_calls() -> list[tuple[Any, ...]]:
    sizes = [(3, 0), (300, 0), (40, 90), (3, 0)]
    firsts = [(f32(t, 5) + 1, t, RNG.integers(0, 9, k)) for t, k in sizes]
    return [(x, np.asarray(t), first) for x, t, first in firsts]


def test_lists_and_rows_that_grow_conditionally(runs: list[bool]) -> None:
    agrees(GROWING.replace("RESULT", "r"), *growing_calls())
    assert runs == [True] * 4


def test_what_has_grown_is_not_taken_back() -> None:
    dropped = GROWING.replace("RESULT", "out").replace("r = out", "r = R.concat((out, out))")
    agrees(dropped, *growing_calls())


@pytest.mark.parametrize("info", ["(2, 3)", '("k", 3)'])
def test_rows_appended_to_states_of_declared_sizes(info: str) -> None:
    text = """
    @R.function
    def main(s: R.Tensor((2, 3), "float32"), x: R.Tensor(("t", 3), "float32")):
        @R.function
        def cell(state: R.Tensor(INFO, "float32"), step: R.Tensor((3,), "float32")):
            unused = R.concat((state, state))
            return (state, step)
        return R.scan(cell, (s,), x)
"""
    agrees(text.replace("INFO", info), (f32(2, 3), f32(4, 3)))


def test_a_list_of_nothing() -> None:
    executable = agrees(GROWING.replace("RESULT", "r"), *growing_calls()[:1])
    low = np.full((2, 5), -1, np.float32), np.asarray(2), np.zeros(0, np.int64)
    with pytest.raises((StructIRError, ValueError)) as expected:
        structir.interpret(executable.module, "main", *low)
    with pytest.raises(type(expected.value)):
        executable["main"](*low)


WHOLE = """
    @R.function
    def cell(h: R.Tensor((3,), "float32"), x: R.Tensor((3,), "float32")):
        k = R.tanh(R.add(h, x))
        return (k, R.sum(k))

    @R.function
    def main(x: R.Tensor(("t", 3), "float32"), a: R.Tensor((), "bool")):
        cls = Module
        first = R.take(x, R.const(0, "int64"), axis=0)
        if a:
            c = cls.cell(first, first)
            h = c[0]
        else:
            h = first
        y = R.scan(cls.cell, (h,), x)
        places = HOST
        return (y[0], y[1], places)
"""


@pytest.mark.parametrize("host", [False, True])
def test_functions_that_are_one_region_are_called_and_looped_over(
    host: bool, runs: list[bool]
) -> None:
    text = WHOLE.replace("HOST", "R.nonzero(x)" if host else "R.argmax(x, axis=0)")
    agrees(text, *[(f32(t, 3), np.asarray(a)) for t in (1, 6) for a in (True, False)])
    assert runs == [True] * 4  # of the whole function, or of its loop


def test_no_step_is_the_hosts_error() -> None:
    executable = agrees(WHOLE.replace("HOST", "x"), (f32(2, 3), np.asarray(True)))
    with pytest.raises(ShapeMismatchError, match="expected t >= 1, found t = 0"):
        executable["main"](f32(0, 3), np.asarray(False))


ADDED = """
    @R.function
    def main(x: R.Tensor(("t", 5), "float32"), w: R.Tensor((5,), "float32")):
        t = T.int64()
        m = T.int64()
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 out: R.Tensor(dtype="float32", ndim=2), a: R.Tensor((5,), "float32")):
            k = T.int64()
            row = R.add(R.take(x, i, axis=0), a)
            one = R.expand_dims(row, axis=[0])
            longer: R.Tensor(dtype="float32", ndim=2) = R.concat((out, one))
            known = R.match_cast(longer, R.Tensor((k, 5), "float32"))
            low = R.less(R.sum(row), R.const(9.0, "float32"))
            return (low, known, WHAT)
        y = R.call_pure_packed(
            "loop.iterate", body, (), R.const(True, "bool"), (x, w), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Tensor((5,), "float32")))
        rows = R.match_cast(y[0], R.Tensor((m, 5), "float32"))
        return (y[1], rows)
"""


@pytest.mark.parametrize("what", ["row", "R.add(row, R.mean(out, axis=[0]))"])
def test_rows_are_cast_to_their_struct_info(what: str, runs: list[bool]) -> None:
    calls = [(np.abs(f32(90, 5)) + np.float32(0.1), f32(5)) for _ in range(2)]
    agrees(ADDED.replace("WHAT", what), *calls)
    assert any(runs)


FAILING = """
    @I.kernel
    def picked(x: R.Tensor(("n",), "float32"), i: R.Tensor((), "int64"),
               out: R.Tensor((), "float32")):
        out[()] = x[i[()]]

    @R.function
    def main(x: R.Tensor(("n",), "float32"), i: R.Tensor((), "int64"), a: R.Tensor((), "bool")):
        if a:
            y = R.call_kernel(picked, (x, i), out_sinfo=R.Tensor((), "float32"))
        else:
            y = R.sum(x)
        z = R.exp(y)
        return z
"""


@pytest.mark.parametrize("native", [False, True])
def test_a_branch_fails_only_when_it_runs(native: bool, request: pytest.FixtureRequest) -> None:
    runs = [] if native else request.getfixturevalue("runs")
    executable = agrees(FAILING, (f32(4), np.asarray(2), np.asarray(True)))
    main, away = executable["main"], np.asarray(9)
    same(main(np.ones(4, np.float32), away, np.asarray(False)), np.exp(np.float32(4)))
    with pytest.raises(StructIRError, match="index 9 is out of range for axis 0 of x"):
        main(f32(4), away, np.asarray(True))
    same(main(np.ones(4, np.float32), away, np.asarray(False)), np.exp(np.float32(4)))
    assert runs == [True] * (0 if native else 3)  # one has failed


CASTS = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"),
             a: R.Tensor((), "bool")):
        n = T.int64()
        if a:
            z = R.match_cast(y, R.Tensor((n,), "float32"))
            r = R.add(x, z)
        else:
            r = R.exp(x)
        return r
"""


def test_sizes_are_checked_where_it_comes_to_that(runs: list[bool]) -> None:
    executable = agrees(
        CASTS,
        (f32(4), f32(4), np.asarray(True)),
        (f32(4), f32(3), np.asarray(False)),
    )
    for _ in range(3):
        with pytest.raises(ShapeMismatchError, match="match_cast of z"):
            executable["main"](f32(4), f32(3), np.asarray(True))
    assert runs == [True, True, False, False, False]


OTHER_SIZES = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), a: R.Tensor((), "bool")):
        if a:
            y = R.exp(x)
        else:
            y = {other}
        return R.add(y, R.const(1, "float32"))
"""


@pytest.mark.parametrize(
    "other",
    ["R.concat((x, x))", "R.tile(x, (3,))", "R.sum(x, keepdims=True)", "R.reshape(x, (-1, 1))"],
)
def test_branches_may_give_values_of_other_sizes(other: str) -> None:
    calls = [(f32(n), np.asarray(a)) for n in (3, 1, 4) for a in (True, False, False)]
    agrees(OTHER_SIZES.replace("{other}", other), *calls)


HOST = """
    @R.function
    def main(x: R.Tensor(("n",), "int64"), a: R.Tensor((), "bool")):
        if a:
            r = R.sum(R.unique(x, sorted=False))
        else:
            r = R.max(x)
        return r
"""


def test_fallbacks_to_the_host(runs: list[bool]) -> None:
    x = np.asarray([3, 1, 3, 2])
    calls = [(x, np.asarray(a)) for a in (False, *[True] * 9, False)]
    executable = agrees(HOST, *calls)
    (why,) = executable.fallbacks
    assert why.startswith("main: unique has no kernel for these operands (at <string>:")
    assert runs[0]
    assert not any(runs[1:])
    assert len(runs) < len(calls)  # a plan that is always left is given up


def test_native_calls_fall_back_in_a_host_branch() -> None:
    x = np.asarray([3, 1, 3, 2])
    agrees(HOST, *[(x, np.asarray(a)) for a in (False, False, *[True] * 9, False)])


def test_plans_without_loops_run_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    args = f32(4), np.float32(0.1)
    executable = agrees(CALLS, args, (f32(5), np.float32(9)))
    wanted = executable["main"](args[0], np.asarray(args[1]))
    monkeypatch.setattr(StepPlan, "run", None)  # nobody asks for it
    same(executable["main"](args[0], np.asarray(args[1])), wanted)
    with pytest.raises(StructIRError, match="results are always new"):
        executable["main"](*args, out=args[0])


RECURSIVE = """
    @R.function
    def halved(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        big = R.greater(R.max(x), R.const(1.0, "float32"))
        if big:
            h = R.multiply(x, R.const(0.5, "float32"))
            r = Module.halved(h)
        else:
            r = x
        return r

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        y = Module.halved(x)
        return R.exp(y)
"""


def test_recursion_is_the_hosts() -> None:
    executable = agrees(RECURSIVE, *[(f32(5) * size,) for size in (1, 100, 1e4)])
    told = executable.fallbacks
    assert any(why.startswith("halved: too many nested calls (at ") for why in told)


def test_an_abandoned_plan_reports_its_reason() -> None:
    condition = "R.greater(R.max(R.unique(x, sorted=False)), R.min(x))"
    executable = agrees(HOST.replace("if a:", f"if {condition}:"))
    x, flag = np.asarray([3, 1, 3, 2]), np.asarray(True)
    profile = executable.profile(x, flag, repeat=2)
    assert profile.left == executable.fallbacks != ()
    assert "fallback: main: unique has no kernel" in str(profile)
    assert profile.data()["fallbacks"] == list(profile.left)


def test_a_failed_check_in_a_branch_reports_its_sizes(runs: list[bool]) -> None:
    executable = agrees(CASTS, (f32(4), f32(3), np.asarray(False)))
    assert executable.fallbacks == ()
    with pytest.raises(ShapeMismatchError, match=r"match_cast of z: axis 0: .*4.*, found 3"):
        executable["main"](f32(4), f32(3), np.asarray(True))
    (why,) = executable.fallbacks
    assert why == "main: match_cast of z: axis 0: sizes that differ"


def test_defects_of_plans_are_not_taken_for_programs_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executable = agrees(CALLS)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(PlanTracer, "region", broken)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        executable["main"](f32(4), np.float32(0.1))


def test_saved_and_loaded(tmp_path: Path, runs: list[bool]) -> None:
    args = (f32(6, 4), f32(4))
    executable = agrees(SCANS, args)
    executable.save(tmp_path / "scans")
    same(structir.load(tmp_path / "scans")["main"](*args), executable["main"](*args))
    assert all(runs)


def test_many_threads_call_at_once() -> None:
    executable = agrees(SCANS, (f32(50, 4), f32(4)))
    given = [(f32(50, 4), f32(4)) for _ in range(16)]
    wanted = [executable["main"](*args) for args in given]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda args: executable["main"](*args), given * 4))
    for got, expected in zip(found, wanted * 4, strict=True):
        same(got, expected)


def test_profiles_list_the_kernels_of_plans() -> None:
    over = np.ones(4, np.float32), np.float32(0.1)
    executable = agrees(CALLS, over)
    profile = executable.profile(*over, repeat=2)
    assert sum("minimum" in origin for k in profile.kernels for origin in k.origins) == 2  # sizes
    assert sum(k.runs for k in profile.kernels) > 3


def test_arguments_of_all_kinds() -> None:
    executable = agrees(CALLS, (f32(8)[::2], np.float32(0.1)))
    wanted = executable["main"](np.asarray([1, 2, 3], np.float32), np.asarray(2.0, np.float32))
    same(executable["main"]([1, 2, 3], 2.0), wanted)
    with pytest.raises(StructIRError, match="expected 2 arguments"):
        executable["main"](f32(3))
    with pytest.raises(ShapeMismatchError, match="parameter x"):
        executable["main"](f32(3, 3), np.float32(1))
