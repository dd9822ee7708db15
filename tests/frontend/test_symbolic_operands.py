"""Operands of symbolic sizes and run-time values where an op's structure depends on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import structir
from structir.errors import StructIRError
from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend
from tests.frontend.models import INT64, expected, made, node, value

pytestmark = pytest.mark.sampled(2)

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


@pytest.mark.parametrize("declared", [2, "k"])
def test_split_by_run_time_sizes(declared: int | str) -> None:
    inputs = [CUBE, value("s", [declared], INT64)]
    model = made([node("Split", "x s", "y z", axis=1)], inputs, ["y", "z"])
    for sizes in (ints(2, 3), ints(5, 0)):
        agree(model, {"x": X, "s": sizes})
    for sizes in (ints(2, 2), ints(-1, 6)):
        with pytest.raises(StructIRError):
            Backend.prepare(model).run({"x": X, "s": sizes})


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
    declared = [
        value("x", ["n", 4, "h", "w"]),
        value("k", ["o", inner, "p", "q"]),
        value("b", ["o"]),
    ]
    model = made([node("Conv", "x k b", "y", **attributes)], declared, ["y"])
    x = RNG.normal(size=(2, 4, 9, 8)).astype("float32")
    for sizes in ((3, 2), (1, 3)):
        k = RNG.normal(size=(6, inner, *sizes)).astype("float32")
        agree(model, {"x": x, "k": k, "b": k[:, 0, 0, 0]})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialiased_resize_of_symbolic_sizes(mode: str, exclude: int) -> None:
    one = node(
        "Resize", "x _ _ s", "y", mode=mode, antialias=1, exclude_outside=exclude, axes=[2, 3]
    )
    model = made([one], [value("x", [1, 2, "h", "w"])], ["y"], {"s": ints(4, 7)})
    for sizes in ((9, 10), (3, 13), (4, 7)):
        agree(model, {"x": RNG.normal(size=(1, 2, *sizes)).astype("float32")})


def test_antialiased_resize_by_scales_of_symbolic_sizes() -> None:
    one = node("Resize", "x _ s", "y", mode="linear", antialias=1, axes=[1])
    model = made([one], [value("x", [2, "w"])], ["y"], {"s": np.float32([0.4])})
    agree(model, {"x": RNG.normal(size=(2, 11)).astype("float32")})


INTEGERS = {"int32": TensorProto.INT32, "int64": INT64, "uint32": TensorProto.UINT32}
LOGARITHMS = {
    "ReduceLogSum": lambda x: np.log(x.sum(1, keepdims=True)),
    "ReduceLogSumExp": lambda x: np.log(np.exp(x).sum(1, keepdims=True)),
}


@pytest.mark.parametrize("op", ["ReduceL2", "ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions_of_integers(op: str, dtype: str) -> None:
    agree(reduction(op, dtype), {"x": RNG.integers(1, 20, (4, 3)).astype(dtype)})


@pytest.mark.parametrize("op", LOGARITHMS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_logarithms_of_integers_are_truncated(op: str, dtype: str) -> None:
    x = RNG.integers(1, 20, (4, 3)).astype(dtype)
    (result,) = Backend.prepare(reduction(op, dtype)).run({"x": x})
    wanted = LOGARITHMS[op](x.astype("float64")).astype(dtype)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)


def reduction(op: str, dtype: str) -> Any:
    declared = [value("x", ["n", 3], INTEGERS[dtype])]
    return made([node(op, "x a", "y")], declared, ["y"], {"a": ints(1)})


def interpreted(model: Any, *operands: Any) -> Any:
    return structir.interpret(from_onnx(model), "main", *operands)


@pytest.mark.parametrize("axes", [None, ints(-1, 0)], ids=["every axis", "run-time axes"])
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad_by_run_time_amounts(mode: str, axes: Any) -> None:
    """Negative amounts crop before the tensor is padded, as in ONNX Runtime."""
    x, amounts = X[0], ints(2, -1, 0, 3)
    named = [value("p", [4], INT64), value("x", ["n", "m"]), value("a", ["k"], INT64)]
    nodes = [node("Pad", f"x p _ {'_' if axes is None else 'a'}", "y", mode=mode)]
    model = made(nodes, named, ["y"])
    pairs = list(zip(amounts[:2], amounts[2:], strict=True))[:: 1 if axes is None else -1]
    cropped = x[tuple([slice(max(-low, 0), None) for low, _ in pairs])]
    wanted = np.pad(cropped, np.maximum(pairs, 0), mode=mode)  # type: ignore[call-overload]
    result = interpreted(model, amounts, x, ints(0, 1) if axes is None else axes)
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_pad_to_a_length_crops_longer_inputs(mode: str) -> None:
    nodes = [
        node("Shape", "x", "length", start=1),
        node("Sub", "target length", "missing"),
        node("Concat", "z z z missing", "pads", axis=0),
        node("Pad", "x pads", "y", mode=mode),
    ]
    model = made(nodes, [value("x", ["n", "m"])], ["y"], {"target": ints(4), "z": ints(0)})
    for length in (3, 4, 6):
        x = X[0, :, :length]
        wanted = np.pad(x[:, :4], [(0, 0), (0, max(4 - length, 0))], mode=mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(interpreted(model, x), wanted)
    if mode == "reflect":
        with pytest.raises(StructIRError, match="E0706"):
            interpreted(model, X[0, :, :1])


def test_cumulative_sum_along_a_run_time_axis() -> None:
    nodes = [node("CumSum", "x a", "y", reverse=1)]
    model = made(nodes, [CUBE, value("a", [], INT64)], ["y"])
    for axis in (0, 2, -2):
        wanted = np.flip(np.flip(X, axis).cumsum(axis), axis)
        np.testing.assert_allclose(interpreted(model, X, np.int64(axis)), wanted, atol=1e-5)
    for axis in (3, -4):
        with pytest.raises(StructIRError):
            interpreted(model, X, np.int64(axis))


def test_nodes_are_sorted() -> None:
    """An editor may append nodes in any order, also those that a branch refers to."""
    then_graph, else_graph = (
        made([node(op, "b", "r")], [], ["r"]).graph for op in ("Neg", "Identity")
    )
    nodes = [
        node("If", "flag", "y", then_branch=then_graph, else_branch=else_graph),
        node("Mul", "a a", "b"),
        node("Add", "x x", "a"),
    ]
    model = made(nodes, [value("x", ["n"]), value("flag", [], TensorProto.BOOL)], ["y"])
    x = np.array([1.0, 3.0], "float32")
    assert interpreted(model, x, np.bool_(True)).tolist() == [-4, -36]
    cycle = made([node("Add", "x b", "a"), node("Neg", "a", "b")], [value("x", ["n"])], ["b"])
    with pytest.raises(StructIRError, match="E0803"):
        from_onnx(cycle)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("size", [3, 4, 5])
def test_transposed_convolution_of_the_same_size_by_a_kernel_of_symbolic_size(
    mode: str, size: int
) -> None:
    """The result has the strides times the sizes of the operand."""
    nodes = [node("ConvTranspose", "x w", "y", auto_pad=mode, strides=[2, 3])]
    inputs = [value("x", [1, 2, "h", "v"]), value("w", [2, 3, "a", "b"])]
    rng = np.random.default_rng(0)
    operands = {
        "x": rng.standard_normal((1, 2, 5, 4)).astype("float32"),
        "w": rng.standard_normal((2, 3, size, size)).astype("float32"),
    }
    agree(made(nodes, inputs, ["y"]), operands)
