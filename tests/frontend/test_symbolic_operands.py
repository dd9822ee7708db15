"""Operands of symbolic sizes and run-time values where an op's structure depends on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from structir.frontend.onnx_backend import Backend
from tests.frontend.models import FLOAT, INT64, expected, made, node, value

RNG = np.random.default_rng(11)
X = RNG.normal(size=(4, 5, 6)).astype("float32")
CUBE = value("x", ["a", "b", "c"])
BOUNDS = [value(name, ["k"], INT64) for name in "set"]


def agree(model: Any, inputs: dict[str, Any], atol: float = 1e-5) -> None:
    """Compiles a model and compares its outputs with ONNX's evaluator."""
    for result, wanted in zip(
        Backend.prepare(model).run(inputs), expected(model, inputs), strict=True
    ):
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, atol=atol, rtol=1e-4)


def ints(*values: int) -> Any:
    return np.array(values, "int64")


@pytest.mark.parametrize("axes", [None, ints(1), ints(2, 0), ints(-1, 1, 0)])
@pytest.mark.parametrize("axes_known", [False, True])
def test_slice_by_run_time_bounds(axes: Any, axes_known: bool) -> None:
    count = 2 if axes is None else len(axes)
    given = {
        "x": X,
        "s": ints(1, -3, 4)[:count],
        "e": ints(100, -1, 0)[:count],
        "t": ints(2, 1, -1)[:count],
    }
    names, declared = "x s e _ t", [CUBE, *BOUNDS]
    constants = {}
    if axes is not None:
        names = "x s e a t"
        if axes_known:
            constants["a"] = axes
        else:
            given["a"] = axes
            declared.append(value("a", ["k"], INT64))
    agree(made([node("Slice", names, "y")], declared, ["y"], constants), given)


def test_slice_by_known_bounds_of_run_time_axes() -> None:
    model = made(
        [node("Slice", "x s e a", "y")],
        [CUBE, value("a", [2], INT64)],
        ["y"],
        {"s": ints(1, 0), "e": ints(3, -2)},
    )
    for axes in (ints(0, 1), ints(-1, 0)):
        agree(model, {"x": X, "a": axes})


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_of_symbolic_tuples(depth: int) -> None:
    indices = RNG.permutation(4)[:2, None] * np.ones((1, depth), "int64") - 4
    updates = RNG.normal(size=(2, *X.shape[depth:])).astype("float32")
    declared = [
        CUBE,
        value("i", ["n", "depth"], INT64),
        value("u", ["n", *"pqr"[: X.ndim - depth]]),
    ]
    model = made([node("ScatterND", "x i u", "y")], declared, ["y"])
    agree(model, {"x": X, "i": indices.astype("int64"), "u": updates})


WEIGHTS = {
    "plain": {},
    "pads": {"pads": [1, 0, 2, 1], "strides": [2, 1]},
    "same": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "lower": {"auto_pad": "SAME_LOWER", "dilations": [1, 2]},
    "grouped": {"group": 2, "dilations": [2, 1]},
}


@pytest.mark.parametrize("attributes", WEIGHTS.values(), ids=WEIGHTS)
def test_convolution_by_weights_of_symbolic_sizes(attributes: dict[str, Any]) -> None:
    inner = 4 // attributes.get("group", 1)
    declared = [value("x", ["n", 4, "h", "w"]), value("k", ["o", inner, "p", "q"]), value("b", ["o"])]
    model = made([node("Conv", "x k b", "y", **attributes)], declared, ["y"])
    x = RNG.normal(size=(2, 4, 9, 8)).astype("float32")
    for sizes in ((3, 2), (1, 3)):
        k = RNG.normal(size=(6, inner, *sizes)).astype("float32")
        agree(model, {"x": x, "k": k, "b": k[:, 0, 0, 0]})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialiased_resize_of_symbolic_sizes(mode: str, exclude: int) -> None:
    one = node("Resize", "x _ _ s", "y", mode=mode, antialias=1, exclude_outside=exclude, axes=[2, 3])
    model = made([one], [value("x", [1, 2, "h", "w"])], ["y"], {"s": ints(4, 7)})
    for sizes in ((9, 10), (3, 13), (4, 7)):
        agree(model, {"x": RNG.normal(size=(1, 2, *sizes)).astype("float32")})


def test_antialiased_resize_by_scales_of_symbolic_sizes() -> None:
    one = node("Resize", "x _ s", "y", mode="linear", antialias=1, axes=[1])
    model = made([one], [value("x", [2, "w"])], ["y"], {"s": np.float32([0.4])})
    agree(model, {"x": RNG.normal(size=(2, 11)).astype("float32")})


@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_reductions_of_integers(op: str, dtype: str) -> None:
    number = {"int32": 6, "int64": INT64, "uint32": 12}[dtype]
    model = made([node(op, "x a", "y")], [value("x", ["n", 3], number)], ["y"], {"a": ints(1)})
    agree(model, {"x": RNG.integers(1, 20, (4, 3)).astype(dtype)})


__all__ = ["FLOAT"]
