"""Windows, padding and slices over their attributes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import structir
from structir.frontend.onnx import from_onnx
from tests.frontend.models import made, node, value

RNG = np.random.default_rng(2)
onnxruntime.set_default_logger_severity(4)


def agree(model: Any, x: Any) -> None:
    """Checks the module against ONNX Runtime; skips models that ONNX Runtime rejects."""
    data = model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"x": x})
    except Exception:
        assume(False)
    got = structir.interpret(from_onnx(model), "main", x)
    np.testing.assert_allclose(got, wanted[0], rtol=1e-5, atol=1e-5)


windows = st.fixed_dictionaries(
    {
        "kernel_shape": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "strides": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "dilations": st.lists(st.integers(1, 2), min_size=2, max_size=2),
    },
    optional={
        "pads": st.lists(st.integers(0, 1), min_size=4, max_size=4),
        "auto_pad": st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]),
    },
)
sizes = st.tuples(st.integers(5, 8), st.integers(5, 8))  # no smaller than any window


def clean(attributes: dict[str, Any]) -> dict[str, Any]:
    if "auto_pad" in attributes:
        attributes.pop("pads", None)
    return attributes


@given(windows, sizes, st.booleans(), st.sampled_from([1, 2]))
@settings(max_examples=60)
def test_convolutions(attributes: Any, shape: Any, symbolic: bool, group: int) -> None:
    attributes = clean(dict(attributes))
    weight = RNG.standard_normal((4, 2 // group, *attributes["kernel_shape"])).astype("f4")
    declared = ["n", 2, "h", "w"] if symbolic else [1, 2, *shape]
    conv = node("Conv", "x w", "y", group=group, **attributes)
    model = made([conv], [value("x", declared)], ["y"], {"w": weight})
    agree(model, RNG.standard_normal((1, 2, *shape)).astype("f4"))


POOLS = ("MaxPool", "AveragePool")


@given(windows, sizes, st.sampled_from(POOLS), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=80)
def test_pools(
    attributes: Any, shape: Any, op: str, ceil: bool, counted: bool, symbolic: bool
) -> None:
    attributes = clean(dict(attributes))
    more = {"count_include_pad": int(counted)} if op == "AveragePool" else {}
    if "auto_pad" in attributes or (op == "AveragePool" and ceil):
        attributes["dilations"] = [1, 1]  # the runtime leaves dilations out of automatic padding
    pool = node(op, "x", "y", ceil_mode=int(ceil), **more, **attributes)
    declared = [1, 2, "h", "w"] if symbolic else [1, 2, *shape]
    model = made([pool], [value("x", declared)], ["y"])
    agree(model, RNG.standard_normal((1, 2, *shape)).astype("f4"))


@pytest.mark.parametrize("declared", [6, "n"])
@pytest.mark.parametrize(("mode", "expected"), [("SAME_UPPER", [1, 4]), ("SAME_LOWER", [0, 3])])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows_that_are_narrower_than_their_stride(
    op: str, mode: str, expected: list[int], declared: Any
) -> None:
    """`SAME` padding is negative, as in ONNX Runtime, which rejects it in MaxPool alone."""
    pool = node(op, "x", "y", kernel_shape=[1], strides=[3], auto_pad=mode)
    model = made([pool], [value("x", [1, 1, declared])], ["y"])
    x = np.arange(6, dtype="float32").reshape(1, 1, 6)
    assert structir.compile(from_onnx(model))["main"](x).ravel().tolist() == expected
    if op != "MaxPool":
        agree(model, x)


bound = st.integers(-9, 9)
steps = st.sampled_from([-3, -2, -1, 1, 2, 3])


@given(bound, bound, steps, st.integers(0, 6), st.booleans())
@settings(max_examples=120)
def test_slices(start: int, end: int, step: int, length: int, symbolic: bool) -> None:
    constants = {
        "s": np.array([start]),
        "e": np.array([end]),
        "a": np.array([1]),
        "p": np.array([step]),
    }
    declared = [2, "n"] if symbolic else [2, length]
    model = made([node("Slice", "x s e a p", "y")], [value("x", declared)], ["y"], constants)
    agree(model, RNG.random((2, length), "f4"))


@given(
    st.lists(st.integers(-1, 2), min_size=4, max_size=4),
    st.sampled_from(["constant", "edge", "reflect"]),
    st.booleans(),
)
@settings(max_examples=60)
def test_padding(pads: list[int], mode: str, symbolic: bool) -> None:
    constants = {"p": np.array(pads), "v": np.float32(1.5)}
    declared = ["m", "n"] if symbolic else [3, 4]
    model = made([node("Pad", "x p v", "y", mode=mode)], [value("x", declared)], ["y"], constants)
    agree(model, RNG.random((3, 4), "f4"))
