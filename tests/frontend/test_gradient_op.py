"""The op Gradient: parts of a graph, tensors, second order, and intermediate values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from structir.errors import DiagnosticError
from structir.frontend.onnx_backend import Backend
from tests.frontend.models import made, node, value

TRAINING = "ai.onnx.preview.training"
W, X = np.float32([[1, -2], [3, 0.5]]), np.float32([[2, 1], [0, -1], [1, 4]])
NODES = [node("MatMul", "x w", "h"), node("Tanh", "h", "t"), node("Mul", "t t", "y")]


def gradient(inputs: str, outputs: str, **attributes: Any) -> Any:
    return node("Gradient", inputs, outputs, domain=TRAINING, **attributes)


def run(nodes: list[Any], outputs: list[str]) -> list[Any]:
    declared = [value("x", ["n", 2]), value("w", [2, 2])]
    model = made(nodes, declared, outputs, {"two": np.float32(2)})
    model.opset_import.append(helper.make_opsetid(TRAINING, 1))
    return list(Backend.prepare(model).run({"x": X, "w": W}))


def test_of_weights() -> None:
    t = np.tanh(X @ W)
    dh = 2 * t * (1 - t * t)
    results = run([*NODES, gradient("w x", "dw dx", xs=["w", "x"], y="y")], ["y", "dw", "dx"])
    for result, wanted in zip(results, (t * t, X.T @ dh, dh @ W.T), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_with_other_operands_and_an_intermediate_value() -> None:
    nodes = [*NODES, gradient("w x", "dw", xs=["w"], zs=["x"], y="y")]
    nodes.append(gradient("h", "dh", xs=["h"], y="y"))
    dw, dh = run(nodes, ["dw", "dh"])
    t = np.tanh(X @ W)
    np.testing.assert_allclose(dh, 2 * t * (1 - t * t), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dw, X.T @ dh, rtol=1e-4, atol=1e-5)


def test_of_a_gradient_at_other_values() -> None:
    nodes = [
        node("Pow", "x two", "s"),
        node("Mul", "s x", "c"),
        gradient("x", "d", xs=["x"], y="c"),
        node("Neg", "x", "m"),
        gradient("m", "dd", xs=["x"], y="d"),
    ]
    d, dd = run(nodes, ["d", "dd"])
    np.testing.assert_allclose(d, 3 * X**2, rtol=1e-4)
    np.testing.assert_allclose(dd, -6 * X, rtol=1e-4, atol=1e-5)


def test_number_of_operands() -> None:
    with pytest.raises(DiagnosticError, match="expected 2 operands, found 1"):
        run([*NODES, gradient("w", "dw", xs=["w"], zs=["x"], y="y")], ["dw"])


def test_of_a_value_that_needs_more_operands() -> None:
    with pytest.raises(DiagnosticError, match="'x' is used before"):
        run([*NODES, gradient("w", "dw", xs=["w"], y="y")], ["dw"])
