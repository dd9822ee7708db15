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
    case(node("Gemm", "x x", "y", name="n"), IMAGE, r"expected 2 axes, \(m, k\), found 4"),
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


def runs_of(model: Any) -> Any:
    """Returns the interpreter and the compiled function of a model."""
    module = from_onnx(model)
    return (lambda *a: structir.interpret(module, "main", *a)), structir.compile(module)["main"]


CONSTANT_WRITES = {
    "elements": (node("ScatterElements", "x i u", "y", axis=1), [[0, 3], [1, 2]]),
    "elements from the end": (node("ScatterElements", "x i u", "y", axis=1), [[0, -4], [1, 2]]),
    "tuples": (node("ScatterND", "x i u", "y"), [[1, 3], [0, 0]]),
    "tuples from the end": (node("ScatterND", "x i u", "y"), [[1, -4], [-2, 0]]),
}


@pytest.mark.parametrize("name", CONSTANT_WRITES)
def test_constant_writes_outside_a_symbolic_axis_are_an_error_at_run_time(name: str) -> None:
    one, indices = CONSTANT_WRITES[name]
    updates = np.float32([7, 8] if "tuples" in name else [[7, 8], [9, 10]])
    model = made([one], [SYMBOLIC], ["y"], {"i": indices, "u": updates})
    enough, short = (np.arange(2 * m, dtype="float32").reshape(2, m) for m in (4, 3))
    for run in runs_of(model):
        np.testing.assert_array_equal(run(enough), expected(model, {"x": enough})[0])
        with pytest.raises(ShapeMismatchError, match="expected m >= 4, found m = 3"):
            run(short)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("length", [5, "s"])
@pytest.mark.parametrize("count", [2, "u"])
def test_a_write_that_exceeds_the_cache_is_an_error_at_run_time(
    mode: str, length: Any, count: Any
) -> None:
    one = node("TensorScatter", "p u i", "y", mode=mode)
    inputs = [value("p", ["b", 1, length, 3]), value("u", ["b", 1, count, 3]), value("i", ["b"], 7)]
    runs = runs_of(made([one], inputs, ["y"], opset=24))
    updates = np.arange(12, dtype="float32").reshape(2, 1, 2, 3) + 1
    for starts in ([0, 3], [4, 0], [0, -1], [2**62, 0], [1, 2], [2**63 - 1, 0]):
        fits = mode == "circular" or all(0 <= start <= 3 for start in starts)
        wanted = np.zeros((2, 1, 5, 3), "float32")
        for item, start in enumerate(starts):
            wanted[item, 0, [(start + k) % 5 for k in range(2)]] = updates[item, 0]
        operands = np.zeros((2, 1, 5, 3), "float32"), updates, np.array(starts)
        for run in runs:
            if fits:
                np.testing.assert_array_equal(run(*operands), wanted)
            else:
                with pytest.raises(ShapeMismatchError):
                    run(*operands)
    empty = np.zeros((0, 1, 5, 3), "f4"), np.zeros((0, 1, 2, 3), "f4"), np.zeros(0, "int64")
    assert all(run(*empty).shape == (0, 1, 5, 3) for run in runs)
    if count == "u":
        many = np.zeros((2, 1, 5, 3), "f4"), np.zeros((2, 1, 6, 3), "f4"), np.array([0, 0])
        for run in runs:
            with pytest.raises(ShapeMismatchError):
                run(*many)


def test_a_constant_index_of_the_first_element_needs_no_check() -> None:
    module = from_onnx(made([node("Gather", "x i", "y")], [SYMBOLIC], ["y"], {"i": [0, -1]}))
    assert "match_cast" not in str(module)


def test_rejected_in_constants() -> None:
    one = node("Gather", "c i", "y", name="n")
    with pytest.raises(DiagnosticError, match="-3 to 2"):
        from_onnx(made([one], [], ["y"], {"c": [1, 2, 3], "i": 3}))


def shapes(op: str, operands: str, message: str, declared: Any, **options: Any) -> Any:
    """Returns the case of a node whose operands have these shapes; arrays are constants."""
    constants = {k: v for k, v in declared.items() if isinstance(v, np.ndarray)}
    inputs = [value(k, v) for k, v in declared.items() if isinstance(v, list)]
    inputs += [value(k, v[0], v[1]) for k, v in declared.items() if isinstance(v, tuple)]
    opset = options.pop("opset", 24)
    one = node(op, operands, options.pop("results", "result"), name="n", **options)
    model = made([one], inputs, [one.output[0]], constants, opset=opset)
    return pytest.param(model, message, id=f"{op}-{message}")


HEADS = {"q": [2, 3, 4, 8], "k": [2, 3, 6, 8], "v": [2, 3, 6, 8]}
CONV = {"x": [1, 2, 5, 5], "w": [2, 2, 3, 3]}
OFFSETS = CONV | {"o": [1, 18, 3, 3]}
CACHE = {"p": [1, 2, 4, 3], "u": [1, 2, 3, 3]}
CLASSES = {"x": [2, 3, 4], "t": ([2, 4], 7)}
ONE, ZERO = np.float32([1])[0:1].reshape(()), np.array(0, "uint8")
PRODUCT = {"a": ([2, 3], 2), "b": ([3, 4], 2), "s": ONE, "z": ZERO}
QUANTIZED = {"x": ([1, 2, 5, 5], 2), "w": ([4, 2, 3, 3], 2), "s": ONE, "z": ZERO}
BYTES = {"x": ([2, 3, 4], 2)}
LAYER = {"x": [5, 2, 4], "w": [1, 12, 4], "r": [1, 12, 3]}
TERMS = "a s z b s z s z"


def ones(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


RELATIONS = [
    shapes("Attention", "q k v", "scale: expected a positive number", HEADS, scale=-1.0),
    shapes("Attention", "q k v", "scale: expected a positive number", HEADS, scale=0.0),
    shapes("Attention", "q k v", "0, 1, 2 or 3, found 7", HEADS, qk_matmul_output_mode=7),
    shapes("Attention", "q k v", "is_causal: expected 0 or 1", HEADS, is_causal=3),
    shapes("Attention", "q k v", r"expected shape \(2, h, k, 8\)", HEADS | {"k": [2, 3, 6, 7]}),
    shapes("Attention", "q k v", r"expected shape \(2, 3, 6, f\)", HEADS | {"v": [2, 3, 5, 8]}),
    shapes("Attention", "q k v", "multiple of 3 key heads", HEADS | {"q": [2, 4, 4, 8]}),
    shapes("Attention", "q k v m", "broadcasts to", HEADS | {"m": [5, 6]}),
    shapes("Attention", "q k v m", "at most 6 keys", HEADS | {"m": [4, 7]}),
    shapes("Attention", "q k v _ p", "belong together", HEADS | {"p": [2, 3, 1, 8]}),
    shapes("Attention", "q q q", "missing attribute 'q_num_heads'", {"q": [2, 4, 8]}),
    *[
        shapes(op, operands, message, CLASSES | changed, **options)
        for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
        for operands, message, changed, options in (
            ("x t", r"expected shape \(2, 4\), found \(2, 5\)", {"t": ([2, 5], 7)}, {}),
            ("x t", r"expected 2 axes, \(2, 4\), found 1", {"t": ([2], 7)}, {}),
            ("x t w", r"expected shape \(3,\), found \(4,\)", {"w": [4]}, {}),
            ("x t", "none, sum or mean, found 'avg'", {}, {"reduction": "avg"}),
            ("x t", "found float32", {"t": [2, 4]}, {}),
        )
    ],
    shapes("DeformConv", "x w o", r"\(1, 18, 3, 3\)", OFFSETS | {"o": [1, 9, 3, 3]}),
    shapes("DeformConv", "x w o", r"\(1, 18, 3, 3\)", OFFSETS | {"o": [1, 18, 4, 3]}),
    shapes("DeformConv", "x w o b m", r"\(1, 9, 3, 3\)", OFFSETS | {"b": [2], "m": [1, 8, 3, 3]}),
    shapes("DeformConv", "x w o b", r"expected shape \(2,\)", OFFSETS | {"b": [3]}),
    shapes("DeformConv", "x w o", "offset_group: expected a divisor", OFFSETS, offset_group=3),
    shapes("DeformConv", "x w o", "offset_group: expected a positive", OFFSETS, offset_group=0),
    shapes("TensorScatter", "p u i", "expected 0 to 1", CACHE | {"i": np.array([2])}),
    shapes("TensorScatter", "p u i", "found -1", CACHE | {"i": np.array([-1])}),
    shapes("TensorScatter", "p u", "at most 4 entries", CACHE | {"u": [1, 2, 5, 3]}),
    shapes("TensorScatter", "p u", r"expected shape \(1, 2, u, 3\)", CACHE | {"u": [1, 3, 2, 3]}),
    shapes("TensorScatter", "p u", "expected an axis after the batch", CACHE, axis=0),
    shapes(
        "QLinearMatMul",
        TERMS.replace("z", "y", 1),
        "shape of the scale",
        PRODUCT | {"y": ones(2, dtype="uint8")},
    ),
    shapes(
        "QLinearMatMul",
        "a s y b s z s z",
        "expected dtype uint8",
        PRODUCT | {"y": ones(dtype="int8")},
    ),
    shapes(
        "QLinearMatMul",
        "a s z b t y s z",
        r"or \(4,\)",
        PRODUCT | {"t": ones(3), "y": ones(3, dtype="uint8")},
    ),
    shapes("QLinearConv", "x s z w t z s z", "shape of the scale", QUANTIZED | {"t": ones(4)}),
    shapes(
        "QLinearConv",
        "x s z w t y s z",
        r"or \(4,\)",
        QUANTIZED | {"t": ones(3), "y": ones(3, dtype="uint8")},
    ),
    shapes(
        "QLinearConv",
        "x t y w s z s z",
        r"\(\) or \(1,\)",
        QUANTIZED | {"t": ones(2), "y": ones(2, dtype="uint8")},
    ),
    shapes("DequantizeLinear", "x t", r"or \(3,\), found \(5,\)", BYTES | {"t": ones(5)}),
    shapes("DequantizeLinear", "x t z", "shape of the scale", BYTES | {"t": ones(3), "z": ZERO}),
    shapes(
        "DequantizeLinear",
        "x s z",
        "expected dtype uint8",
        BYTES | {"s": ONE, "z": ones(dtype="int8")},
    ),
    shapes("DequantizeLinear", "x t", "found", BYTES | {"t": ones(2, 3, 4)}),
    shapes("DequantizeLinear", "x t", r"\(2, 2, 4\)", BYTES | {"t": ones(2, 3, 4)}, block_size=2),
    shapes(
        "QuantizeLinear", "x s z", "output_dtype", {"x": [2], "s": ONE, "z": ZERO}, output_dtype=3
    ),
    shapes(
        "LSTM",
        "x w r",
        r"expected shape \(2, 12, 4\)",
        LAYER,
        hidden_size=3,
        direction="bidirectional",
    ),
    shapes("LSTM", "x w r b", r"expected shape \(1, 24\)", LAYER | {"b": [1, 12]}, hidden_size=3),
    shapes("LSTM", "x w r", "found", LAYER | {"w": [1, 12, 5], "x": [5, 2, 4]}, hidden_size=3),
    shapes("InstanceNormalization", "x s s", r"expected shape \(2,\)", CONV | {"s": [1]}),
    shapes("Conv", "x w b", r"expected shape \(2,\)", CONV | {"b": [3]}),
    shapes("Conv", "x w", "pads: expected numbers of 0 or more", CONV, pads=[-1, 0, 0, 0]),
    shapes("Relu", "x", "unexpected attribute 'alpha'", {"x": [4]}, alpha=3),
    shapes("Softmax", "x", "axis: expected an attribute of type INT", {"x": [4]}, axis=1.5),
    shapes("Relu", "x x", "at most 1 operands, found 2", {"x": [4]}),
    shapes(
        "OneHot", "i d v", r"expected shape \(2,\)", {"i": ([3], 7), "d": np.array(4), "v": ones(3)}
    ),
    shapes("Expand", "x s", "expected one that broadcasts", {"x": [4, 3], "s": np.array([4, 5])}),
    shapes("Tile", "x s", r"expected 1 axis, \(x0,\), found 2", {"x": [4, 3], "s": np.array([2])}),
]


@pytest.mark.parametrize(("model", "message"), RELATIONS)
def test_shapes_and_attributes_that_onnx_excludes_are_rejected(model: Any, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message) as caught:
        from_onnx(model)
    (error,) = caught.value.diagnostics
    assert error.op == model.graph.node[0].op_type
    assert error.code == "E0805"
    assert "# n" in str(caught.value)


def test_the_edit_of_a_wrong_input_is_its_declaration() -> None:
    one = node("SoftmaxCrossEntropyLoss", "x t", "y", name="n")
    model = made([one], [value("x", [2, 3]), value("t", [4], 7)], ["y"])
    with pytest.raises(DiagnosticError) as caught:
        from_onnx(model)
    assert 'help: declare the input: `helper.make_tensor_value_info("t", ' in str(caught.value)
