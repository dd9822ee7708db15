"""Conditionals, loops, scans, recurrent layers and lists, against ONNX and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import structir
from structir.errors import ShapeMismatchError
from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend
from structir.ir import dims
from tests.frontend.models import BOOL, FLOAT, INT64, expected, made, node, value

RNG = np.random.default_rng(11)


def graph(nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, "inner", inputs, outputs)


def agree(model: Any, inputs: dict[str, Any], wanted: Any = None) -> Any:
    """Checks the outputs against ONNX's evaluator, also after printing and parsing the module."""
    got = Backend.prepare(model).run(list(inputs.values()))
    for mine, theirs in zip(got, wanted or expected(model, inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)
    module = from_onnx(model)
    if "main_const" not in str(module):
        assert structir.structural_equal(structir.parse(module.script()), module)
    return got


def by_runtime(model: Any, inputs: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


@pytest.mark.parametrize("chosen", [True, False])
def test_a_choice_at_run_time(chosen: bool) -> None:
    then = graph([node("Neg", "x", "a")], [], [value("a", None)])
    other = graph([node("Concat", "x x", "b", axis=0)], [], [value("b", None)])
    choice = node("If", "c", "y", then_branch=then, else_branch=other)
    inputs = [value("x", ["n", 2]), value("c", [], BOOL)]
    model = made([choice, node("Relu", "y", "z")], inputs, ["z"])
    given = {"x": RNG.random((3, 2), "f4"), "c": np.array(chosen)}
    agree(model, given)
    result = from_onnx(model)["main"].ret_struct_info
    assert result.ndim == 2


def growing(trips: str, condition: str) -> Any:
    """Returns a loop that doubles a value and outputs each, while it is small."""
    body = graph(
        [
            node("Add", "h h", "h2"),
            node("ReduceMax", "h2", "top", keepdims=0),
            node("Less", "top limit", "small"),
            node("Identity", "h2", "shown"),
        ],
        [value("i", [], INT64), value("go", [], BOOL), value("h", None)],
        [value("small", [], BOOL), value("h2", None), value("shown", None)],
    )
    loop = node("Loop", f"{trips} {condition} x", "last all", body=body)
    inputs = [value("x", ["n"])]
    constants = {"trips": np.int64(4), "on": np.array(True), "limit": np.float32(20)}
    return made([loop], inputs, ["last", "all"], constants)


@pytest.mark.parametrize("trips", ["trips", "_"])
@pytest.mark.parametrize("condition", ["on", "_"])
def test_a_loop_with_growing_outputs(trips: str, condition: str) -> None:
    model = growing(trips, condition)
    for size in (1, 3):
        x = np.arange(1, size + 1, dtype="f4")
        got = agree(model, {"x": x}, by_runtime(model, {"x": x}))
        assert got[1].shape[1] == size


def test_a_loop_that_never_runs() -> None:
    model = growing("trips", "on")
    model.graph.initializer[0].CopyFrom(helper.make_tensor("trips", INT64, [], [0]))
    last, every = Backend.prepare(model).run([np.ones(3, "f4")])
    assert last.tolist() == [1, 1, 1]
    assert every.shape == (0, 3)


def test_a_value_that_grows_from_step_to_step() -> None:
    body = graph(
        [node("Concat", "h h", "h2", axis=0), node("Identity", "go", "on2")],
        [value("i", [], INT64), value("go", [], BOOL), value("h", None)],
        [value("on2", [], BOOL), value("h2", None)],
    )
    model = made(
        [node("Loop", "trips on x", "y", body=body)],
        [value("x", ["n", 2]), value("trips", [], INT64)],
        ["y"],
        {"on": np.array(True)},
    )
    agree(model, {"x": RNG.random((1, 2), "f4"), "trips": np.int64(3) * np.ones((), "i8")})


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan(direction: int) -> None:
    body = graph(
        [node("Add", "s e", "s2"), node("Identity", "s2", "out")],
        [value("s", [2]), value("e", [2])],
        [value("s2", [2]), value("out", [2])],
    )
    attributes = {"scan_input_directions": [direction], "scan_output_directions": [direction]}
    scan = node("Scan", "s0 x", "last all", body=body, num_scan_inputs=1, **attributes)
    model = made([scan], [value("s0", [2]), value("x", ["t", 2])], ["last", "all"])
    x = RNG.random((4, 2), "f4")
    sums = (x[::-1] if direction else x).cumsum(0)
    shown = sums[::-1] if direction else sums
    agree(model, {"s0": np.zeros(2, "f4"), "x": x}, [sums[-1], shown])
    every = from_onnx(model)["main"].ret_struct_info.fields[1]
    assert dims.text(every.dims[0]) == "t"


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_a_recurrent_layer(kind: str, lengths: bool, direction: str) -> None:
    hidden, inner, ways = 3, 4, 2 if direction == "bidirectional" else 1
    width = GATES[kind] * hidden
    constants = {
        "w": RNG.standard_normal((ways, width, inner)).astype("f4"),
        "r": RNG.standard_normal((ways, width, hidden)).astype("f4"),
        "b": RNG.standard_normal((ways, 2 * width)).astype("f4"),
        "l": np.array([5, 2], "i4"),
    }
    attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
    cell = node(
        kind,
        f"x w r b {'l' if lengths else '_'}",
        "y last",
        hidden_size=hidden,
        direction=direction,
        **attributes,
    )
    model = made([cell], [value("x", ["t", "n", inner], FLOAT)], ["y", "last"], constants)
    x = RNG.standard_normal((5, 2, inner)).astype("f4")
    agree(model, {"x": x}, by_runtime(model, {"x": x}))


def test_lists_of_run_time_length() -> None:
    nodes = [
        node("SplitToSequence", "x", "parts", axis=0, keepdims=0),
        node("SequenceLength", "parts", "n"),
        node("SequenceAt", "parts zero", "first"),
        node("SequenceInsert", "parts first", "more"),
        node("SequenceErase", "more zero", "less"),
        node("ConcatFromSequence", "less", "y", axis=0, new_axis=1),
    ]
    model = made(nodes, [value("x", ["n", 2])], ["y", "n"], {"zero": np.int64(0)})
    x = RNG.random((3, 2), "f4")
    agree(model, {"x": x}, [x[[1, 2, 0]], np.int64(3)])


def squeezing() -> Any:
    """Branches have different ranks; the next node is valid in only one of them."""
    then = graph([node("Squeeze", "x axis", "a")], [], [value("a", None)])
    other = graph([node("Identity", "x", "b")], [], [value("b", None)])
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s last", "n"),
        node("Equal", "n one", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
        node("Transpose", "y", "z", perm=[1, 0]),
        node("Relu", "z", "out"),
    ]
    constants = {"axis": np.array([2]), "last": np.int64(2), "one": np.int64(1)}
    return made(nodes, [value("x", ["n", 2, "k"])], ["out"], constants)


def test_branches_of_different_ranks() -> None:
    model = squeezing()
    x = RNG.standard_normal((3, 2, 1)).astype("f4")
    agree(model, {"x": x}, [np.maximum(x[..., 0].T, 0)])
    result = from_onnx(model)["main"].ret_struct_info
    assert [dims.text(d) for d in result.dims] == ["2", "n"]


def test_a_branch_that_cannot_be_right_fails_when_it_is_taken() -> None:
    prepared = Backend.prepare(squeezing())
    with pytest.raises(ShapeMismatchError, match="axes"):
        prepared.run([np.ones((3, 2, 4), "f4")])
