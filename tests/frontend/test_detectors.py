"""Ops of detectors: box selection, top-k, image resizing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from structir.frontend.onnx_backend import Backend
from tests.frontend.models import INT64, made, node, value

RNG = np.random.default_rng(11)


def wanted(model: Any, given: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model.ir_version = 9
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, given))


@pytest.mark.parametrize("centre", [0, 1])
def test_boxes_are_chosen_as_onnx_runtime_does(centre: int) -> None:
    constants = {"most": np.array([7]), "overlap": np.float32([0.4]), "least": np.float32([0.3])}
    chosen = node("NonMaxSuppression", "b s most overlap least", "y", center_point_box=centre)
    inputs = [value("b", ["i", "n", 4]), value("s", ["i", 3, "n"])]
    model = made([chosen], inputs, ["y"], constants, opset=17)
    prepared = Backend.prepare(model)
    for images, count in [(1, 40), (2, 90), (1, 1)]:
        places = RNG.random((images, count, 2), "f4") * 4
        sizes = RNG.random((images, count, 2), "f4") + 0.2
        boxes = np.concatenate([places, sizes if centre else places + sizes], 2)
        scores = RNG.random((images, 3, count), "f4")
        (found,) = prepared.run([boxes, scores])
        (expected,) = wanted(model, {"b": boxes, "s": scores})
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_with_k_as_an_input(largest: int) -> None:
    best = node("TopK", "x k", "v i", axis=1, largest=largest)
    inputs = [value("x", ["a", "b"]), value("k", [1], INT64)]
    prepared = Backend.prepare(made([best], inputs, ["v", "i"]))
    x = RNG.standard_normal((3, 6)).astype("f4")
    order = np.argsort(-x if largest else x, axis=1)
    for k in (0, 1, 4, 6):
        values, places = prepared.run([x, np.array([k])])
        assert np.array_equal(places, order[:, :k])
        assert np.array_equal(values, np.take_along_axis(x, places, 1))
    assert len(prepared.programs) == 1


def test_top_k_of_at_most_the_axis_size() -> None:
    nodes = [
        node("Shape", "x", "n", start=1),
        node("Min", "n most", "k"),
        node("TopK", "x k", "v i"),
    ]
    prepared = Backend.prepare(made(nodes, [value("x", ["a", "b"])], ["v"], {"most": [4]}))
    for count in (2, 9):
        x = RNG.standard_normal((2, count)).astype("f4")
        (values,) = prepared.run([x])
        assert np.array_equal(values, -np.sort(-x, axis=1)[:, :4])


# Size and stride of the window, padding, padding of the output, groups: every pair of values.
SPREAD = [
    (2, 1, 0, 0, 1),
    (3, 1, 1, 0, 2),
    (2, 2, 1, 1, 1),
    (3, 2, 0, 1, 2),
    (2, 2, 0, 0, 2),
    (3, 2, 1, 0, 1),
    (2, 3, 1, 1, 2),
    (3, 3, 0, 1, 1),
    (2, 3, 0, 0, 1),
    (3, 3, 1, 0, 2),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_transposed_convolutions(axes: int, known: bool) -> None:
    for size, stride, pad, extra, groups in SPREAD:
        weight = RNG.standard_normal((4, 3, *[size, size + 1][:axes])).astype("f4")
        x = RNG.standard_normal((2, 4, *[5, 4][:axes])).astype("f4")
        spread = node(
            "ConvTranspose",
            "x w",
            "y",
            strides=[stride] * axes,
            pads=[pad] * 2 * axes,
            output_padding=[extra] * axes,
            group=groups,
        )
        inputs = [value("x", ["n", 4, "h", "w"][: 2 + axes])]
        inputs += [] if known else [value("w", list(weight.shape))]
        given = {"x": x} if known else {"x": x, "w": weight}
        model = made([spread], inputs, ["y"], {"w": weight} if known else {}, opset=17)
        if known or size == stride:
            (found,) = Backend.prepare(model).run(given)
            (expected,) = wanted(model, given)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
