"""Passes between the import of a model and its compilation."""

from __future__ import annotations

import numpy as np

from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend, for_inference
from tests.frontend.models import expected, made, node, value


def test_norms_and_weights_are_worked_out_before_the_first_call() -> None:
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.standard_normal((6, 3, 3, 3)).astype("float32"),
        "b": rng.standard_normal(6).astype("float32"),
        "scale": rng.random(6).astype("float32") + 0.5,
        "shift": rng.standard_normal(6).astype("float32"),
        "mean": rng.standard_normal(6).astype("float32"),
        "variance": rng.random(6).astype("float32") + 0.5,
        "two": np.array(2, "float32"),
    }
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c scale shift mean variance", "n"),
        node("Relu", "n", "r"),
        node("Pow", "r two", "y"),
    ]
    model = made(nodes, [value("x", ["n", 3, "h", "w"])], ["y"], constants)
    text = str(for_inference()(from_onnx(model)))
    for gone in ("batch_norm", "power", "rsqrt", "reshape", "expand_dims"):
        assert f"R.{gone}" not in text and f"R.nn.{gone}" not in text
    prepared = Backend.prepare(model)
    for size in ((1, 3, 5, 7), (2, 3, 4, 4)):
        given = {"x": rng.standard_normal(size).astype("float32")}
        (found,) = prepared.run([given["x"]])
        np.testing.assert_allclose(found, expected(model, given)[0], rtol=1e-4, atol=1e-5)
