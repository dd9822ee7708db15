"""Plans for all sizes give the results of the interpreter, also if loops change sizes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import structir
from structir.errors import OutOfMemoryError, ShapeMismatchError
from structir.frontend.onnx import from_onnx
from structir.runtime.plans import plan_cache as planned
from structir.runtime.plans.sized_plan import SizedPlan
from structir.runtime.plans.sized_trace import SizedTracer
from structir.runtime.plans.step_plan import LEFT
from tests.frontend.models import BOOL, INT64, made, node, value

RNG = np.random.default_rng(7)
HEAD = "from structir.script import I, R, T\n\n\n@I.ir_module\nclass Module:\n"
TRIPS = 'trips: R.Tensor((), "int64")'


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run of a plan for all sizes was complete; none is native."""
    complete: list[bool] = []
    run = SizedPlan.run

    def recorded(self: SizedPlan, *args: Any) -> Any:
        result = run(self, *args)
        complete.append(result is not LEFT)
        return result

    monkeypatch.setattr(SizedPlan, "run", recorded)
    monkeypatch.setattr(SizedPlan, "is_native", False)
    return complete


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tracers of all plans."""
    created: list[Any] = []
    before = planned.Placeholders.__init__

    def recorded(self: Any, reads: Any, tracer: Any) -> None:
        created.append(tracer)
        before(self, reads, tracer)

    monkeypatch.setattr(planned.Placeholders, "__init__", recorded)
    return created


def flat(result: Any) -> list[Any]:
    return [v for item in result for v in flat(item)] if isinstance(result, tuple) else [result]


def agrees(text: str, *calls: tuple[Any, ...]) -> Any:
    """Checks that each call of a program gives the results of the interpreter."""
    module = structir.parse(HEAD + text)
    executable = structir.compile(module, num_threads=1)
    for args in calls:
        expected = structir.interpret(module, "main", *args)
        actual = flat(executable["main"](*args))
        for array, wanted in zip(actual, flat(expected), strict=True):
            assert array.dtype == wanted.dtype
            np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)
    return executable


def loop_text(body: str, carried: str = "x", result: str = "h2", state: str = "h") -> str:
    """A loop over one carried matrix of any number of rows."""
    return f"""
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), {TRIPS}):
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 {state}: R.Tensor("float32", ndim=2)):
            m = T.int64()
            h1 = R.match_cast({state}, R.Tensor(("m", 3), "float32"))
{body}
        y = R.call_pure_packed(
            "loop.iterate", body, trips, R.const(True, "bool"), ({carried},), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor("float32", ndim=2)))
        return y[0]
"""


def indented(*lines: str) -> str:
    return "\n".join("            " + line for line in lines)


CHANGES = {
    "one more row": (
        "s = R.mean(h1, axis=[0], keepdims=True)",
        "h2 = R.concat((h1, R.tanh(s)), axis=0)",
        "return (going, h2)",
    ),
    "twice as many": ("h2 = R.concat((h1, R.negative(h1)), axis=0)", "return (going, h2)"),
    "one row less": (
        "r = R.strided_slice(h1, axes=[0], begin=[1], end=[m])",
        "h2 = R.multiply(r, R.const(0.5, 'float32'))",
        "return (going, h2)",
    ),
    "half of the rows": (
        "h2 = R.strided_slice(h1, axes=[0], begin=[0], end=[m], strides=[2])",
        "return (going, h2)",
    ),
    "until it is long": (
        "h2 = R.concat((h1, h1), axis=0)",
        "k = R.sum(R.ones_like(h2))",
        "return (R.less(k, R.const(100.0, 'float32')), h2)",
    ),
    "in one branch": (
        "up = R.equal(R.floor_mod(i, R.const(2, 'int64')), R.const(0, 'int64'))",
        "if up:",
        "    r = R.concat((h1, R.negative(h1)), axis=0)",
        "else:",
        "    r = R.add(h1, R.const(1.0, 'float32'))",
        "return (going, r)",
    ),
}
TRIP_COUNT = {"twice as many": 5, "half of the rows": 3, "in one branch": 7}


@pytest.mark.parametrize("change", CHANGES)
def test_loops_that_change_sizes_run_in_a_plan(
    change: str, runs: list[bool], traces: list[Any]
) -> None:
    count = np.asarray(TRIP_COUNT.get(change, 9))
    calls = [(f32(n, 3), count) for n in (12, 10, 11, 12, 15)]
    executable = agrees(loop_text(indented(*CHANGES[change])), *calls)
    assert executable.fallbacks == ()
    assert runs and all(runs)
    assert len([t for t in traces if isinstance(t, SizedTracer)]) <= 2  # of the loop, of main


APPENDED = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), trips: R.Tensor((), "int64")):
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 h: R.Tensor("float32", ndim=2)):
            h2 = R.concat((h, {rows}), axis=0)
            m = T.int64()
            h3 = R.match_cast(h2, R.Tensor(("m", 3), "float32"))
            s = R.max(h3)
            return (R.less(s, R.const(1e6, "float32")), h2)
        y = R.call_pure_packed(
            "loop.iterate", body, trips, R.const(True, "bool"), (x,), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor("float32", ndim=2)))
        return y[0]
"""


@pytest.mark.parametrize("rows", ["x", "R.exp(x), h, x", "h"])
def test_rows_appended_to_a_value_that_is_read(rows: str, runs: list[bool]) -> None:
    calls = [(f32(n, 3), np.asarray(5)) for n in (2, 1, 3, 2)]
    executable = agrees(APPENDED.replace("{rows}", rows), *calls)
    assert executable.fallbacks == ()
    assert runs and all(runs)


def test_loops_shrink_to_nothing() -> None:
    text = loop_text(indented(*CHANGES["one row less"]))
    executable = agrees(text, (f32(5, 3), np.asarray(5)), (f32(6, 3), np.asarray(6)))
    expected = structir.interpret(executable.module, "main", f32(4, 3), np.asarray(7))
    for _ in range(3):
        assert executable["main"](f32(4, 3), np.asarray(7)).shape == expected.shape


TWO = """
    @R.function
    def main(k: R.Tensor(("n", 4), "float32"), v: R.Tensor(("n", 2), "float32"),
             q: R.Tensor((1, 4), "float32"), w: R.Tensor((2, 4), "float32"),
             trips: R.Tensor((), "int64")):
        @R.function
        def body(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                 q: R.Tensor((1, 4), "float32"), k0: R.Tensor("float32", ndim=2),
                 v0: R.Tensor("float32", ndim=2)):
            m = T.int64()
            k1 = R.match_cast(k0, R.Tensor(("m", 4), "float32"))
            v1 = R.match_cast(v0, R.Tensor(("m", 2), "float32"))
            a = R.nn.softmax(R.matmul(q, R.permute_dims(k1)), axis=-1)
            o = R.matmul(a, v1)
            q2 = R.tanh(R.matmul(o, w))
            k2 = R.concat((k1, q2), axis=0)
            v2 = R.concat((v1, o), axis=0)
            return (going, q2, k2, v2, R.max(q2), i)
        y = R.call_pure_packed(
            "loop.iterate", body, trips, R.const(True, "bool"), (q, k, v),
            (R.shape([0]), R.shape([0])), R.str("float32 int64"),
            sinfo_args=R.Tuple(R.Tensor((1, 4), "float32"), R.Tensor("float32", ndim=2),
                               R.Tensor("float32", ndim=2), R.Tensor("float32", ndim=1),
                               R.Tensor("int64", ndim=1)))
        return y
"""


def test_two_carried_values_of_one_changing_size(runs: list[bool]) -> None:
    calls = [
        (f32(n, 4), f32(n, 2), f32(1, 4), f32(2, 4), np.asarray(trips))
        for n, trips in [(3, 20), (2, 20), (1, 30), (3, 20), (2, 1), (7, 2)]
    ]
    executable = agrees(TWO, *calls)
    assert executable.fallbacks == ()
    assert len(runs) >= 5 and all(runs)


NESTED = """
    @R.function(private=True)
    def extended(h: R.Tensor(("k", 3), "float32"), up: R.Tensor((), "bool")):
        if up:
            r = R.concat((h, R.exp(R.negative(R.abs(h)))), axis=0)
        else:
            r = R.concat((h, R.mean(h, axis=[0], keepdims=True)), axis=0)
        return r

    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), trips: R.Tensor((), "int64")):
        cls = Module
        @R.function
        def outer(i: R.Tensor((), "int64"), going: R.Tensor((), "bool"),
                  h0: R.Tensor("float32", ndim=2)):
            m = T.int64()
            h1 = R.match_cast(h0, R.Tensor(("m", 3), "float32"))
            @R.function
            def inner(j: R.Tensor((), "int64"), on: R.Tensor((), "bool"),
                      g0: R.Tensor("float32", ndim=2)):
                p = T.int64()
                g1 = R.match_cast(g0, R.Tensor(("p", 3), "float32"))
                g2 = R.concat((g1, R.add(R.sum(h1, axis=[0], keepdims=True),
                               R.astype(j, "float32"))), axis=0)
                return (on, R.tanh(g2))
            y = R.call_pure_packed(
                "loop.iterate", inner, R.const(3, "int64"), (), (h1,), (), R.str(""),
                sinfo_args=R.Tuple(R.Tensor("float32", ndim=2)))
            q = T.int64()
            h2 = R.match_cast(y[0], R.Tensor(("q", 3), "float32"))
            h3 = cls.extended(h2, R.less(i, R.const(2, "int64")))
            return (going, h3)
        z = R.call_pure_packed(
            "loop.iterate", outer, trips, R.const(True, "bool"), (x,), (), R.str(""),
            sinfo_args=R.Tuple(R.Tensor("float32", ndim=2)))
        return z[0]
"""


def test_loops_in_loops_and_calls_that_change_sizes(runs: list[bool]) -> None:
    executable = agrees(NESTED, *[(f32(n, 3), np.asarray(t)) for n, t in [(2, 4), (3, 5), (1, 3)]])
    assert executable.fallbacks == ()
    assert runs and all(runs)


def decoder(hidden: int = 4) -> Any:
    """An ONNX loop that appends a token to ids and a row to a cache of unknown size."""
    nodes = [
        node("Gather", "ids last", "id"),
        node("Gather", "table id", "e"),
        node("Concat", "cache e", "cache2", axis=0),
        node("Transpose", "cache2", "keys", perm=[1, 0]),
        node("MatMul", "e keys", "s"),
        node("Softmax", "s", "a", axis=-1),
        node("MatMul", "a cache2", "o"),
        node("Transpose", "table", "table_t", perm=[1, 0]),
        node("MatMul", "o table_t", "logits"),
        node("ArgMax", "logits", "next", axis=1, keepdims=0),
        node("Concat", "ids next", "ids2", axis=0),
        node("Identity", "go", "go2"),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [
            value("i", [], INT64),
            value("go", [], BOOL),
            value("ids", None, INT64),
            value("cache", None),
        ],
        [value("go2", None, BOOL), value("ids2", None, INT64), value("cache2", None)],
    )
    loop = node("Loop", "trips on ids0 cache0", "ids9 cache9", body=body)
    inputs = [
        value("trips", [], INT64),
        value("ids0", ("t",), INT64),
        value("cache0", ("t", hidden)),
        value("table", ("v", hidden)),
    ]
    known = {"on": np.array(True), "last": np.array([-1])}
    return made([loop], inputs, ["ids9", "cache9"], known)


def test_an_onnx_decoder_runs_in_a_plan(runs: list[bool]) -> None:
    module = from_onnx(decoder())
    executable = structir.compile(module, num_threads=1)
    for tokens, trips in [(1, 20), (3, 20), (2, 7), (3, 20), (5, 1)]:
        args = np.asarray(trips), np.arange(tokens), f32(tokens, 4), f32(9, 4)
        expected = structir.interpret(module, "main", *args)
        ids, cache = executable["main"](*args)
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_allclose(cache, expected[1], rtol=1e-4, atol=1e-5)
    assert executable.fallbacks == ()
    assert runs and all(runs)


BRANCH = """
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        h = R.matmul(x, w)
        big = R.greater(R.sum(h), R.const(0.0, "float32"))
        if big:
            y = R.nn.softmax(R.matmul(h, w))
        else:
            y = R.negative(h)
        return y, R.sum(y, axis=[0])
"""

RECURRENT = """
    @R.function(private=True)
    def cell(h: R.Tensor(("b", 4), "float32"), x: R.Tensor(("b", 4), "float32"),
             w: R.Tensor((4, 4), "float32")):
        h2 = R.tanh(R.add(R.matmul(h, w), x))
        return (h2, h2)

    @R.function
    def main(x: R.Tensor(("t", "b", 4), "float32"), w: R.Tensor((4, 4), "float32")):
        cls = Module
        b = T.int64()
        return R.scan(cls.cell, (R.zeros((b, 4), "float32"),), x, (w,))
"""


def test_new_sizes_of_a_branch_are_not_traced_again(runs: list[bool], traces: list[Any]) -> None:
    agrees(BRANCH, *[(f32(n, 4), f32(4, 4)) for n in (3, 0, *range(4, 20))])
    assert len(traces) == 1
    assert runs == [True] * 17


def test_a_call_at_new_sizes_describes_its_arguments_once(
    runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = agrees(BRANCH, *[(f32(n, 4), f32(4, 4)) for n in (3, 4)])
    described = []
    monkeypatch.setattr(planned, "PlannedArguments", lambda *args, **names: described.append(args))
    executable["main"](f32(9, 4), f32(4, 4))
    assert runs == [True, True] and not described


def test_new_sizes_of_a_recurrent_net_are_not_traced_again(
    runs: list[bool], traces: list[Any]
) -> None:
    calls = [
        (f32(t, b, 4), f32(4, 4) * np.float32(0.3))
        for t, b in zip(range(2, 40, 2), range(1, 20), strict=True)
    ]
    agrees(RECURRENT, *calls)
    assert len([t for t in traces if isinstance(t, SizedTracer)]) <= 2
    assert runs.count(True) >= len(calls) - 2


def test_sizes_that_do_not_fit_are_reported_by_the_host() -> None:
    executable = agrees(BRANCH, *[(f32(n, 4), f32(4, 4)) for n in (3, 4, 5)])
    for _ in range(2):
        with pytest.raises(ShapeMismatchError, match="parameter w: axis 1"):
            executable["main"](f32(6, 4), f32(4, 5))


SIZES = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"),
             a: R.Tensor((), "bool")):
        n = T.int64()
        m = T.int64()
        if n > 2 * m:
            r = R.sum(x)
        else:
            r = R.sum(y)
        if a:
            z = R.match_cast(R.concat((y, y)), R.Tensor(("n",), "float32"))
            s = R.add(z, x)
        else:
            s = R.add(x, R.multiply(r, R.astype(R.prim_value(n), "float32")))
        return s
"""


def test_conditions_on_sizes_are_evaluated_at_each_size(runs: list[bool]) -> None:
    sizes = [(6, 3), (2, 1), (9, 3), (4, 2), (8, 4), (3, 3), (10, 5)]
    agrees(SIZES, *[(f32(n), f32(m), np.asarray(n == 2 * m)) for n, m in sizes])
    assert runs and all(runs)


@pytest.mark.parametrize("is_native", [False, True], ids=["Python", "native"])
def test_many_threads_call_at_new_sizes(is_native: bool, request: pytest.FixtureRequest) -> None:
    runs = [] if is_native else request.getfixturevalue("runs")
    module = structir.parse(HEAD + TWO)
    main = structir.compile(module, num_threads=2)["main"]
    calls = [
        (f32(n, 4), f32(n, 2), f32(1, 4), f32(2, 4), np.asarray(3 + n % 5)) for n in range(1, 60)
    ]
    for args in calls[:2]:
        main(*args)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda args: main(*args), calls))
    one = structir.compile(module, num_threads=1)["main"]
    for number, (args, result) in enumerate(zip(calls, results, strict=True)):
        others = [one(*args)]
        if number % 8 == 0:  # which takes much longer
            others.append(structir.interpret(module, "main", *args))
        for expected in others:
            for array, wanted in zip(result, expected, strict=True):
                np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)
    assert all(runs)


def test_loaded_executables_run_at_new_sizes(tmp_path: Path, runs: list[bool]) -> None:
    calls = [(f32(n, 4), f32(4, 4)) for n in range(2, 9)]
    agrees(BRANCH, *calls).save(tmp_path / "branch")
    count = len(runs)
    main = structir.load(tmp_path / "branch")["main"]
    module = structir.parse(HEAD + BRANCH)
    for args in calls:
        for array, wanted in zip(
            main(*args), structir.interpret(module, "main", *args), strict=True
        ):
            np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-5)
    assert len(runs) > count and all(runs)


@pytest.mark.parametrize("declared", ['R.Prim(value="s")', 'R.Shape(["s"])'])
def test_a_negative_size_is_rejected_after_calls_at_valid_sizes(declared: str) -> None:
    module = structir.parse(f"""
@R.function
def main(size: {declared}, x: R.Tensor(("n",), "float32")):
    s = T.int64()
    return R.exp(x), R.prim_value(s)
""")
    main, x = structir.compile(module)["main"], np.ones(4, "float32")
    for size in (-1, 3, -1, 2, -2, 3, -1):
        argument = size if "Prim" in declared else (size,)
        if size > 0:
            assert main(argument, x)[1] == size
            continue
        with pytest.raises(ShapeMismatchError, match="found -"):
            main(argument, x)


OF_ELEMENTS = """
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        return CALL
"""
ARRAYS = [RNG.integers(0, 3, (n, 3)).astype(np.float32) for n in (4, 4, 4, 0, 6)]
ARRAYS[2][1:] = np.nan


def test_sizes_that_depend_on_elements_need_no_host(runs: list[bool]) -> None:
    executable = agrees(OF_ELEMENTS.replace("CALL", "R.nonzero(x)"), *[(x,) for x in ARRAYS])
    assert runs and all(runs) and executable.fallbacks == ()


def test_sizes_in_tensors_are_checked(runs: list[bool]) -> None:
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Tensor((2,), "int64")):
        k = T.int64()
        m = T.int64()
        shape = R.match_cast(R.tensor_to_shape(s), R.Shape((k, m)))
        return R.broadcast_to(R.sum(x), (k, m))
"""
    calls = [(f32(4), np.array(s)) for s in ([2, 3], [1, 0], [4, 5], [2, 3])]
    executable = agrees(text, *calls)
    assert runs and all(runs) and executable.fallbacks == ()
    with pytest.raises(ShapeMismatchError, match="-1"):
        executable["main"](f32(4), np.array([2, -1]))


def test_sizes_in_tensors_are_neither_negative_nor_too_large(runs: list[bool]) -> None:
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), s: R.Tensor((2,), "int64")):
        k = T.int64()
        m = T.int64()
        shape = R.match_cast(R.tensor_to_shape(s), R.Shape((k, m)))
        part = R.strided_slice(x, axes=[0], begin=[k], end=[m])
        return part, R.full((k, m), R.sum(part))
"""
    executable = agrees(text, *[(f32(4), np.array(s)) for s in ([1, 3], [0, 4], [2, 9], [1, 3])])
    assert runs and all(runs)
    for sizes in ([-1, 3], [1, -3]):
        with pytest.raises(ShapeMismatchError, match="match_cast"):
            executable["main"](f32(4), np.array(sizes))
    for sizes in ([1 << 40, 1 << 40], [1 << 62, 4]):
        with pytest.raises(OutOfMemoryError):
            executable["main"](f32(4), np.array(sizes))
