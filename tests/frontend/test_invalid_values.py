"""Nodes with values that ONNX excludes are rejected by name, at the import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir.errors import DiagnosticError, ShapeMismatchError
from structir.frontend.onnx.model import from_onnx
from tests.frontend.models import expected, made, node, value

X4, X34 = value("x", [4]), value("x", [3, 4])
IMAGE = value("x", [1, 1, 4, 4])
SCALE = "x _ s"


def case(one: Any, declared: Any, message: str, **constants: Any) -> Any:
    return pytest.param(one, declared, constants, message, id=f"{one.op_type}-{message}")


CASES = [
    case(node("Split", "x s", "y z", name="n"), X4, "sizes of 0 or more", s=[-1, 5]),
    case(node("Split", "x s", "y z", name="n"), X4, "sum 4", s=[2, 3]),
    case(node("Split", "x s", "y z", name="n"), X4, "expected 2 sizes", s=[1, 1, 2]),
    case(node("Split", "x", "y z", name="n", num_outputs=0), X4, "num_outputs"),
    case(node("Split", "x", "y z", name="n", num_outputs=-1), X4, "num_outputs"),
    case(node("Split", "x", "a b c y", name="n", num_outputs=4), value("x", [5]), "into 4 parts"),
    case(node("Gather", "x i", "y", name="n"), X4, "-4 to 3", i=[1, 4]),
    case(node("Gather", "x i", "y", name="n"), X4, "-4 to 3", i=-5),
    case(node("Gather", "x i", "y", name="n", axis=1), X34, "-4 to 3", i=[4]),
    case(node("GatherElements", "x i", "y", name="n"), X34, "-3 to 2", i=[[3]]),
    case(node("GatherElements", "x i", "y", name="n", axis=1), X34, "found -5", i=[[-5]]),
    case(node("GatherND", "x i", "y", name="n"), X34, "-4 to 3", i=[[2, 4]]),
    case(node("GatherND", "x i", "y", name="n"), X34, "at most 2 per tuple", i=[[0, 0, 0]]),
    case(node("GatherND", "x i", "y", name="n", batch_dims=1), X34, "found -5", i=[[-5]] * 3),
    case(node("ScatterND", "x i u", "y", name="n"), X4, "found 4", i=[[4]], u=np.float32([1])),
    case(node("ScatterElements", "x i u", "y", name="n"), X4, "found 9", i=[9], u=np.float32([1])),
    *[
        case(node("Resize", SCALE, "y", name="n"), IMAGE, "positive", s=np.float32([1, 1, 2, s]))
        for s in (-2.0, 0.0, np.inf, np.nan)
    ],
    case(node("Resize", SCALE, "y", name="n"), IMAGE, "expected 4", s=np.float32([1, 1, 2])),
    case(node("Resize", "x _ _ s", "y", name="n"), IMAGE, "0 or more", s=[1, 1, 4, -8]),
    case(node("ReduceSum", "x", "y", name="n", keepdims=7), X4, "keepdims: expected 0 or 1"),
    case(node("Mod", "x x", "y", name="n", fmod=-1), X4, "fmod: expected 0 or 1"),
    case(node("CumSum", "x i", "y", name="n", exclusive=65), X4, "exclusive: expected 0 or 1", i=0),
    case(node("MaxPool", "x", "y", name="n", kernel_shape=[2, 2], ceil_mode=2), IMAGE, "ceil_mode"),
    case(node("MaxPool", "x", "y", name="n", kernel_shape=[2, 2], strides=[1]), IMAGE, "strides"),
    case(node("LpPool", "x", "y", name="n", kernel_shape=[2, 2], pads=[1, 1]), IMAGE, "pads"),
    case(
        node("ConvTranspose", "x w", "y", name="n", dilations=[2]),
        IMAGE,
        "dilations: expected 2 positive",
        w=np.ones((1, 1, 2, 2), "float32"),
    ),
    case(node("Gelu", "x", "y", name="n", approximate="xx"), X4, "approximate"),
    case(node("SpaceToDepth", "x", "y", name="n", blocksize=2, mode="xx"), IMAGE, "mode"),
    case(node("Gemm", "x x", "y", name="n"), IMAGE, "expected a matrix as operand A"),
    case(node("Upsample", "x s", "y", name="n"), IMAGE, "positive", s=np.float32([1, 1, 0, 2])),
]


@pytest.mark.parametrize(("one", "declared", "constants", "message"), CASES)
def test_rejected_with_the_name_of_the_node(
    one: Any, declared: Any, constants: Any, message: str
) -> None:
    opset = 9 if one.op_type == "Upsample" else 21
    with pytest.raises(DiagnosticError, match=message) as caught:
        from_onnx(made([one], [declared], ["y"], constants, opset=opset))
    assert f"{one.op_type}:" in str(caught.value)
    assert "# n" in str(caught.value)


SYMBOLIC = value("x", ["n", "m"])
CONSTANT_INDICES = {
    "one element": (node("Gather", "x i", "y", axis=1), 3),
    "several elements": (node("Gather", "x i", "y", axis=1), [0, 3, 1]),
    "from the end": (node("Gather", "x i", "y", axis=1), -4),
    "elements": (node("GatherElements", "x i", "y", axis=1), [[0, 3], [1, 1]]),
    "tuples": (node("GatherND", "x i", "y"), [[1, 3], [0, 0]]),
    "batches of tuples": (node("GatherND", "x i", "y", batch_dims=1), [[[3]], [[0]]]),
}


@pytest.mark.parametrize("name", CONSTANT_INDICES)
def test_constant_indices_outside_a_symbolic_axis_are_an_error_at_run_time(name: str) -> None:
    one, indices = CONSTANT_INDICES[name]
    model = made([one], [SYMBOLIC], ["y"], {"i": indices})
    module = from_onnx(model)
    runs = (lambda x: structir.interpret(module, "main", x), structir.compile(module)["main"])
    enough, short = (np.arange(2 * m, dtype="float32").reshape(2, m) for m in (4, 3))
    for run in runs:
        np.testing.assert_array_equal(run(enough), expected(model, {"x": enough})[0])
        with pytest.raises(ShapeMismatchError, match=r"axis 1: expected .* = 4"):
            run(short)


def test_a_constant_index_of_the_first_element_needs_no_check() -> None:
    module = from_onnx(made([node("Gather", "x i", "y")], [SYMBOLIC], ["y"], {"i": [0, -1]}))
    assert "match_cast" not in str(module)


def test_rejected_in_constants() -> None:
    one = node("Gather", "c i", "y", name="n")
    with pytest.raises(DiagnosticError, match="-3 to 2"):
        from_onnx(made([one], [], ["y"], {"c": [1, 2, 3], "i": 3}))
