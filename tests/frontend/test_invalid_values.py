"""Nodes with values that ONNX excludes are rejected by name, at the import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from structir.errors import DiagnosticError
from structir.frontend.onnx.model import from_onnx
from tests.frontend.models import made, node, value

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


def test_rejected_in_constants() -> None:
    one = node("Gather", "c i", "y", name="n")
    with pytest.raises(DiagnosticError, match="-3 to 2"):
        from_onnx(made([one], [], ["y"], {"c": [1, 2, 3], "i": 3}))
