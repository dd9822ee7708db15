"""Ops of ONNX Runtime's own domain and products of small integers, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import structir
from structir.frontend.onnx import from_onnx
from structir.frontend.onnx_backend import Backend
from tests.frontend.models import value

RNG = np.random.default_rng(5)
DTYPES = {"f": TensorProto.FLOAT, "u": TensorProto.UINT8, "i": TensorProto.INT8}


def model_of(
    op: str, operands: str, outputs: str, inputs: Any, constants: Any, domain: str, **more: Any
) -> ModelProto:
    names = ["" if n == "_" else n for n in operands.split()]
    made = helper.make_node(op, names, outputs.split(), domain=domain, **more)
    graph = helper.make_graph(
        [made],
        "one",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def agree(model: ModelProto, *cases: dict[str, Any], atol: float = 1e-5) -> None:
    """Checks one prepared model on all cases against ONNX Runtime; integers may differ by 1."""
    options = onnxruntime.SessionOptions()
    # Without this, sums of two uint8 * int8 products saturate at 16 bits on some x86 CPUs.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    prepared = Backend.prepare(model)
    for given in cases:
        for mine, theirs in zip(prepared.run(given), session.run(None, given), strict=True):
            assert mine.dtype == theirs.dtype
            whole = 0 if theirs.dtype.kind == "f" or theirs.dtype == np.int32 else 1
            np.testing.assert_allclose(
                mine.astype("f8"), theirs.astype("f8"), rtol=2e-5, atol=max(whole, atol)
            )


def small(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype("uint8")


NUMBERS = {
    "sx": np.float32(0.03),
    "zx": np.uint8(120),
    "sy": np.float32(0.05),
    "zy": np.uint8(100),
    "so": np.float32(0.04),
    "zo": np.uint8(128),
}
OPS = [
    ("QLinearAdd", "x sx zx y sy zy so zo", {}),
    ("QLinearMul", "x sx zx y sy zy so zo", {}),
    ("QLinearConcat", "so zo x sx zx y sy zy", {"axis": 1}),
    ("QLinearSigmoid", "x sx zx so zo", {}),
    ("QLinearLeakyRelu", "x sx zx so zo", {"alpha": 0.1}),
    ("QLinearSoftmax", "x sx zx so zo", {"axis": -1, "opset": 13}),
    ("QLinearGlobalAveragePool", "x sx zx so zo", {}),
    ("QLinearAveragePool", "x sx zx so zo", {"kernel_shape": [2, 2], "strides": [2, 2]}),
]


@pytest.mark.parametrize(("op", "operands", "attributes"), OPS)
def test_quantised_ops(op: str, operands: str, attributes: dict[str, Any]) -> None:
    names = [n for n in ("x", "y") if n in operands.split()]
    inputs = [value(n, ["n", 3, "h", 4], TensorProto.UINT8) for n in names]
    constants = {k: v for k, v in NUMBERS.items() if k in operands.split()}
    model = model_of(op, operands, "o", inputs, constants, "com.microsoft", **attributes)
    agree(model, *[{n: small(k, 3, h, 4) for n in names} for k, h in ((1, 4), (2, 6))])


def test_q_gemm() -> None:
    constants = {
        **NUMBERS,
        "b": RNG.integers(-127, 127, (5, 7)).astype("int8"),
        "sb": RNG.random(5).astype("float32") * 0.01,
        "zb": np.zeros(5, "int8"),
        "c": RNG.integers(-900, 900, 5).astype("int32"),
    }
    used = "x sx zx b sb zb c so zo"
    constants = {k: v for k, v in constants.items() if k in used.split()}
    inputs = [value("x", ["n", 7], TensorProto.UINT8)]
    model = model_of("QGemm", used, "o", inputs, constants, "com.microsoft", transB=1)
    agree(model, {"x": small(3, 7)}, {"x": small(1, 7)})


@pytest.mark.parametrize("terms", [7, 600, 2500])
def test_products_of_integers_are_exact(terms: int) -> None:
    """Checks sums that float32 would round: they are computed in parts."""
    weight = RNG.choice(np.array([-128, 127, 126], "int8"), (terms, 9))
    inputs = [value("x", ["n", terms], TensorProto.UINT8)]
    constants = {"w": weight, "z": np.uint8(3)}
    model = model_of("MatMulInteger", "x w z", "o", inputs, constants, "")
    x = RNG.integers(250, 256, (4, terms)).astype("uint8")
    agree(model, {"x": x}, {"x": x[:1]})


def test_convolutions_of_integers_are_exact() -> None:
    weight = RNG.choice(np.array([-128, 127, 126], "int8"), (5, 90, 3, 3))
    inputs = [value("x", ["n", 90, "h", 6], TensorProto.UINT8)]
    model = model_of("ConvInteger", "x w", "o", inputs, {"w": weight}, "", pads=[1, 1, 1, 1])
    agree(model, *[{"x": 255 - small(n, 90, h, 6) // 40} for n, h in ((1, 5), (2, 4))])


def test_products_that_quantize_their_input() -> None:
    constants = {
        "w": RNG.integers(-127, 127, (12, 5)).astype("int8"),
        "s": RNG.random(5).astype("float32") * 0.01 + 0.01,
        "b": RNG.standard_normal(5).astype("float32"),
    }
    inputs = [value("x", ["n", 12])]
    model = model_of("DynamicQuantizeMatMul", "x w s _ b", "o", inputs, constants, "com.microsoft")
    agree(model, *[{"x": RNG.standard_normal((n, 12)).astype("float32")} for n in (1, 4)])


def test_the_norm_of_a_sum() -> None:
    constants = {k: RNG.standard_normal(6).astype("float32") for k in ("gamma", "beta", "bias")}
    inputs = [value("x", ["n", "m", 6]), value("y", ["n", "m", 6])]
    operands = "x y gamma beta bias"
    model = model_of(
        "SkipLayerNormalization", operands, "o", inputs, constants, "com.microsoft", epsilon=1e-6
    )
    agree(
        model,
        *[{k: RNG.standard_normal((n, 3, 6)).astype("float32") for k in "xy"} for n in (1, 2)],
    )


def test_a_layer_with_quantised_weights() -> None:
    """Checks closeness only: ONNX Runtime also quantizes the other operand."""
    constants = {
        "w": RNG.integers(-127, 127, (1, 6, 16)).astype("int8"),
        "r": RNG.integers(-127, 127, (1, 4, 16)).astype("int8"),
        "b": RNG.standard_normal((1, 32)).astype("float32"),
        "sw": np.array([0.01], "float32"),
        "zw": np.array([0], "int8"),
        "zr": np.array([0], "int8"),  # ONNX Runtime saturates if both weights share one
    }
    operands = "x w r b _ _ _ _ sw zw sw zr"
    inputs = [value("x", ["steps", "n", 6])]
    model = model_of(
        "DynamicQuantizeLSTM", operands, "o", inputs, constants, "com.microsoft", hidden_size=4
    )
    cases = [{"x": RNG.standard_normal((s, n, 6)).astype("float32")} for s, n in ((3, 1), (5, 2))]
    agree(model, *cases, atol=0.03)


def test_resize_takes_sizes_that_are_known_at_run_time() -> None:
    inputs = [value("x", ["b", 2, "h", "w"]), value("s", [2], TensorProto.INT64)]
    model = model_of("Resize", "x _ _ s", "y", inputs, {}, "", mode="linear")
    model.opset_import[0].version = 19
    model.graph.node[0].attribute.append(helper.make_attribute("axes", [2, 3]))
    shapes = ((1, 3, 4), (5, 6)), ((2, 1, 1), (3, 1))
    cases = [
        {"x": RNG.random((b, 2, h, w)).astype("float32"), "s": np.array(sizes)}
        for (b, h, w), sizes in shapes
    ]
    module = from_onnx(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for case in cases:
        result = structir.interpret(module, "main", *case.values())
        np.testing.assert_allclose(result, session.run(None, case)[0], atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"output_shape": [9, 8], "output_padding": [1, 0]},
        {"output_shape": [10, 9], "auto_pad": "SAME_UPPER"},
    ],
)
def test_a_transposed_convolution_has_its_output_shape_at_symbolic_sizes(attributes: Any) -> None:
    weight = RNG.random((4, 6, 3, 3)).astype("float32")
    inputs = [value("x", ["b", 4, "h", "w"])]
    constants = {"k": weight}
    model = model_of(
        "ConvTranspose", "x k", "y", inputs, constants, "", strides=[3, 2], **attributes
    )
    agree(model, *[{"x": RNG.random((b, 4, 4, 5)).astype("float32")} for b in (1, 2)])
