"""Loops that run as one plan give the results of single steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from structir.frontend.onnx import from_onnx
from structir.interpret import loops
from structir.runtime.executable import Executable
from structir.runtime.plans import plan_cache as planned
from tests.frontend.models import BOOL, INT64, made, node, value

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def short_loops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "SHORT_LOOP_STEPS", 0)


def looped(
    nodes: list[Any],
    carried: list[str],
    results: list[str],
    constants: Any = None,
    shape: Any = ("n", 3),
) -> Any:
    """A model of one loop over the carried values, which are its inputs."""
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", [], INT64), value("go", [], BOOL), *[value(c, None) for c in carried]],
        [value(r, None, BOOL if k == 0 else 1) for k, r in enumerate(results)],
    )
    given = [f"{c}0" for c in carried]
    outputs = [f"y{k}" for k in range(len(results) - 1)]
    loop = node("Loop", " ".join(["trips", "on", *given]), " ".join(outputs), body=body)
    inputs = [value(g, shape) for g in given]
    known = {"on": np.array(True), **(constants or {})}
    return made([loop], [value("trips", [], INT64), *inputs], outputs, known)


def both(model: Any, *inputs: Any) -> tuple[Any, int]:
    """The results at once, which are those of single steps; how many loops were run at once."""
    program = Executable(from_onnx(model))["main"]
    at_once: list[int] = []
    plain = loops.iterate

    def main(*inputs: Any) -> tuple[Any, ...]:
        made = program(*inputs)
        return made if isinstance(made, tuple) else (made,)

    def counted(body: Any, *rest: Any) -> Any:
        run = body.loop

        def noted(*given: Any) -> Any:
            found = run(*given)
            at_once.append(found is not None)
            return found

        return plain(Noting(body, noted), *rest)

    class Noting:
        def __init__(self, body: Any, loop: Any) -> None:
            self.body, self.noted = body, loop
            self.loop = (lambda me, *given: loop(body, *given)) if loop else None

        def __call__(self, *args: Any) -> Any:
            return self.body(*args)

    loops.register_extern("loop.iterate", counted)
    try:
        got = main(*inputs)
        loops.register_extern("loop.iterate", lambda body, *r: plain(Noting(body, None), *r))
        wanted = main(*inputs)
    finally:
        loops.register_extern("loop.iterate", plain, by_form=True)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    return got, sum(at_once)


DOUBLED = [node("Add", "h h", "h2"), node("Identity", "go", "on2")]


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_values_in_two_buffers_in_turn(steps: int) -> None:
    nodes = [node("Mul", "a b", "a2"), node("Sub", "a b", "b2"), node("Identity", "go", "on2")]
    model = looped(nodes, ["a", "b"], ["on2", "a2", "b2"])
    a, b = RNG.random((2, 2, 3), "f4")
    _, count = both(model, np.array(steps), a, b)
    assert count == 1


def test_a_carried_value_that_is_shown_is_read_where_it_is_shown() -> None:
    model = looped(
        [*DOUBLED, node("Cast", "i", "f", to=1), node("Add", "h2 f", "shown")],
        ["h"],
        ["on2", "shown", "shown", "h2"],
    )
    got, count = both(model, np.array(5), np.ones((2, 3), "f4"))
    assert count == 1
    assert got[1].shape == (5, 2, 3)
    got[1][-1] += 1
    assert not np.array_equal(got[0], got[1][-1])  # the last value is not the output's memory


@pytest.mark.parametrize("limit", [3.0, 1e3, 1e30])
def test_a_loop_that_ends_by_its_own_condition(limit: float) -> None:
    nodes = [
        node("Add", "h one", "h2"),
        node("ReduceMax", "h2", "top", keepdims=0),
        node("Less", "top limit", "small"),
    ]
    constants = {"one": np.float32(1), "limit": np.float32(limit)}
    model = looped(nodes, ["h"], ["small", "h2", "h2"], constants)
    got, count = both(model, np.array(2000), np.zeros((1, 3), "f4"))
    assert count == 1
    assert len(got[1]) == min(limit, 2000)


def test_changing_sizes_run_at_once() -> None:
    nodes = [node("Concat", "h h", "h2", axis=0), node("Identity", "go", "on2")]
    model = looped(nodes, ["h"], ["on2", "h2"])
    got, count = both(model, np.array(3), np.ones((1, 3), "f4"))
    assert count == 1
    assert got[0].shape == (8, 3)


def test_other_sizes_at_the_next_call() -> None:
    model = looped(DOUBLED, ["h"], ["on2", "h2", "h2"])
    for rows in (2, 0, 5, 2):
        both(model, np.array(4), RNG.random((rows, 3), "f4"))


@pytest.mark.parametrize("shown", [False, True])
def test_values_without_axes_stay_arrays(shown: bool) -> None:
    results = ["on2", "h2", "h2"] if shown else ["on2", "h2"]
    model = looped(DOUBLED, ["h"], results, shape=())
    got, count = both(model, np.array(4), np.array(1, "f4"))
    assert count == 1
    assert all(type(v) is np.ndarray for v in got)
    assert got[0] == 16
