"""Ops of ONNX Runtime's own domain, compared with ONNX Runtime on small models."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.helper import np_dtype_to_tensor_dtype

from structir.frontend.onnx.ops import microsoft_quantised
from structir.frontend.onnx_backend import Backend

pytestmark = pytest.mark.sampled(2)

RNG = np.random.default_rng(5)
MS = "com.microsoft"


def single(
    op: str,
    operands: list[Any],
    outputs: int = 1,
    fixed: tuple[int, ...] = (),
    domain: str = MS,
    symbolic: bool = True,
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    """Returns a model of one node; operands are arrays or None, those in `fixed` constants."""
    names = ["" if x is None else f"x{k}" for k, x in enumerate(operands)]
    free = [k for k, x in enumerate(operands) if x is not None and k not in fixed]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(
            names[k],
            np_dtype_to_tensor_dtype(operands[k].dtype),
            [f"d{k}_{a}" for a in range(operands[k].ndim)] if symbolic else operands[k].shape,
        )
        for k in free
    ]
    graph = helper.make_graph(
        [node],
        "small",
        inputs,
        [helper.make_empty_tensor_value_info(r) for r in results],
        [numpy_helper.from_array(operands[k], names[k]) for k in fixed],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model, {names[k]: operands[k] for k in free}


def agree(model: Any, given: dict[str, Any], steps: int = 0, atol: float = 2e-5) -> list[Any]:
    """Checks the outputs against ONNX Runtime; integers may differ by `steps`."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Without this, sums of two uint8 * int8 products saturate at 16 bits on some x86 CPUs.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, given)
    got = Backend.prepare(model).run(list(given.values()))
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        if theirs.dtype.kind in "iu":
            apart = np.abs(mine.astype(int) - theirs.astype(int))
            assert apart.max(initial=0) <= steps
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=atol)
    return wanted


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("f4")


def small(*shape: int, dtype: str = "u1") -> Any:
    low = 0 if dtype == "u1" else -128
    return RNG.integers(low, low + 256, shape).astype(dtype)


def scale(value: float) -> Any:
    return np.float32(value) * np.ones((), "f4")


def zero(value: int, dtype: str = "u1") -> Any:
    return np.array(value, dtype)


X = [scale(0.02), zero(120)]
Y = [scale(0.03), zero(90)]


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_of_quantised_operands(op: str) -> None:
    operands = [small(2, 3, 4), *X, small(3, 1), *Y, scale(0.05), zero(100)]
    agree(*single(op, operands, fixed=(1, 2, 4, 5, 6, 7)), steps=1)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ],
)
def test_functions_of_one_quantised_operand(op: str, attributes: Any) -> None:
    made = [scale(1 / 256), zero(0)] if op in ("QLinearSigmoid", "QLinearSoftmax") else Y
    operands = [small(2, 3, 4, 5), *X, *made]
    agree(*single(op, operands, fixed=(1, 2, 3, 4), **attributes), steps=1)


def test_quantised_operands_side_by_side() -> None:
    operands = [*Y, small(2, 3), *X, small(2, 2), scale(0.05), zero(7)]
    agree(*single("QLinearConcat", operands, fixed=(0, 1, 3, 4, 6, 7), axis=1), steps=1)


def test_a_choice_of_quantised_operands() -> None:
    chosen = RNG.random((2, 3)) > 0.5
    operands = [chosen, small(2, 3), *X, small(3), *Y, scale(0.05), zero(60)]
    agree(*single("QLinearWhere", operands, fixed=(2, 3, 5, 6, 7, 8)), steps=1)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("to_float", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
def test_a_quantised_gemm(turned: int, to_float: bool, by_column: bool) -> None:
    weights = small(5, 4, dtype="i1") if turned else small(4, 5, dtype="i1")
    scales = RNG.random(5).astype("f4") * 0.01 + 0.01 if by_column else scale(0.01)
    zeros = np.zeros(5, "i1") if by_column else zero(3, "i1")
    bias = RNG.integers(-500, 500, 5).astype("i4")
    operands = [small(3, 4), *X, weights, scales, zeros, bias]
    operands += [] if to_float else [scale(0.3), zero(128)]
    fixed = tuple(range(1, len(operands)))
    agree(*single("QGemm", operands, fixed=fixed, transB=turned, alpha=1.0), steps=1)


@pytest.mark.parametrize("by_column", [False, True])
def test_integer_products_as_floats(by_column: bool) -> None:
    scales = RNG.random(5).astype("f4") * 0.01 if by_column else scale(0.01)
    zeros = small(5, dtype="i1") if by_column else zero(3, "i1")
    operands = [small(2, 3, 4), small(4, 5, dtype="i1"), scale(0.02), scales, zero(9), zeros]
    operands.append(floats(5))
    fixed = tuple(range(1, 7))
    agree(*single("MatMulIntegerToFloat", operands, fixed=fixed))


@pytest.mark.parametrize("by_column", [False, True])
def test_products_quantised_at_run_time(by_column: bool) -> None:
    scales = RNG.random(5).astype("f4") * 0.01 if by_column else scale(0.01)
    zeros = small(5, dtype="i1") if by_column else zero(3, "i1")
    operands = [floats(2, 3, 4), small(4, 5, dtype="i1"), scales, zeros, floats(5)]
    agree(*single("DynamicQuantizeMatMul", operands, fixed=(1, 2, 3, 4)), atol=1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("most", [0, 128])
def test_an_lstm_quantised_at_run_time(
    direction: str, by_column: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compares the loop over matrix products and the kernel."""
    monkeypatch.setattr(microsoft_quantised, "MAX_KERNEL_HIDDEN", most)
    ways, inner, hidden = 2 if direction == "bidirectional" else 1, 5, 6
    shape = (ways, 4 * hidden) if by_column else (ways,)
    scales = [(RNG.random(shape) * 0.004 + 0.001).astype("f4") for _ in range(2)]
    zeros = np.zeros(shape, "i1")
    operands = [
        floats(7, 1, inner),
        small(ways, inner, 4 * hidden, dtype="i1"),
        small(ways, hidden, 4 * hidden, dtype="i1"),
        floats(ways, 8 * hidden) * np.float32(0.1),
        None,
        None,
        None,
        None,
        scales[0],
        zeros,
        scales[1],
        zeros,
    ]
    fixed = (1, 2, 3, 8, 9, 10, 11)
    attributes = {"hidden_size": hidden, "direction": direction}
    model, given = single("DynamicQuantizeLSTM", operands, 3, fixed, **attributes)
    agree(model, given, atol=1e-3)


@pytest.mark.parametrize("bits", [7, 8])
def test_a_convolution_with_channels_last(bits: int) -> None:
    """Compares with NumPy, and with ONNX Runtime where its sums cannot saturate: at 7 bits."""
    weights = small(4, 3, 2, 2, dtype="i1") >> (8 - bits)
    scales, zeros = RNG.random(4).astype("f4") * 0.02, np.zeros(4, "i1")
    bias = RNG.integers(-500, 500, 4).astype("i4")
    x = small(2, 5, 6, 3)
    operands = [x, *X, weights, scales, zeros, scale(0.3), zero(100), bias]
    model, given = single("QLinearConv", operands, fixed=tuple(range(1, 9)), channels_last=1)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(int) - 120, (2, 2), axis=(1, 2))
    sums = np.einsum("bhwcij,ocij->bhwo", windows, weights.astype(int)) + bias
    wanted = np.clip(np.rint(sums * (0.02 / 0.3) * scales.astype("f8")) + 100, 0, 255)
    (got,) = Backend.prepare(model).run(list(given.values()))
    np.testing.assert_allclose(got.astype(int), wanted, rtol=0, atol=1)
    if bits == 7:
        agree(model, given, steps=1)


def test_the_greatest_of_windows_with_channels_last() -> None:
    model, given = single("NhwcMaxPool", [small(2, 5, 6, 3)], kernel_shape=[2, 2], strides=[2, 2])
    agree(model, given)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("left", "right", "attributes"),
    [
        ((2, 3, 4), (2, 4, 5), {"alpha": 0.5}),
        ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((3, 2, 4), (5, 2, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    ],
)
def test_products_of_turned_operands(left: Any, right: Any, attributes: Any) -> None:
    if attributes.get("transBatchB"):
        right = (4, 2, 5)
        attributes = {"transBatchA": 1, "transBatchB": 1}
    agree(*single("FusedMatMul", [floats(*left), floats(*right)], **attributes))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.2, 0.4]), ("HardSigmoid", [0.3, 0.4])],
)
def test_convolutions_with_an_activation(name: str, numbers: Any) -> None:
    more = {"activation": name, **({"activation_params": numbers} if numbers else {})}
    operands = [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)]
    agree(*single("FusedConv", operands, fixed=(1, 2), **more))


def test_a_convolution_with_a_sum_and_an_activation() -> None:
    operands = [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3), floats(1, 3, 3, 3)]
    agree(*single("FusedConv", operands, fixed=(1, 2), activation="Relu"))


def test_a_gemm_with_an_activation() -> None:
    more = {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5}
    agree(*single("FusedGemm", [floats(3, 4), floats(5, 4), floats(5)], fixed=(1, 2), **more))


@pytest.mark.parametrize("op", ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"])
def test_activations(op: str) -> None:
    operands = [floats(2, 3, 4), floats(4)] if op in ("BiasGelu", "FastGelu") else [floats(3, 4)]
    agree(*single(op, operands), atol=1e-4)


@pytest.mark.parametrize("operands", [4, 5])
def test_norms_of_sums(operands: int) -> None:
    given = [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)]
    agree(*single("SkipLayerNormalization", given[:operands], epsilon=1e-5))
    plain = [given[0], given[1], given[2], *given[4:operands]]
    agree(*single("SkipSimplifiedLayerNormalization", plain, epsilon=1e-5))


def test_a_sum_that_is_shown() -> None:
    given = [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)]
    model, feed = single("SkipLayerNormalization", given, 4)
    for place in (1, 2):
        model.graph.node[0].output[place] = ""
    del model.graph.output[1:3]
    agree(model, feed)


def test_a_norm_without_a_mean() -> None:
    operands = [floats(2, 3, 8), floats(8)]
    agree(*single("SimplifiedLayerNormalization", operands, domain="", axis=-1))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("segments", [False, True])
def test_embeddings(masked: bool, segments: bool) -> None:
    ids = RNG.integers(0, 9, (2, 5)).astype("i4")
    kinds = RNG.integers(0, 2, (2, 5)).astype("i4")
    mask = (RNG.random((2, 5)) > 0.3).astype("i4")
    tables = [floats(9, 8), floats(7, 8), floats(2, 8) if segments else None]
    operands = [ids, kinds if segments else None, *tables, floats(8), floats(8)]
    operands += [mask] if masked else []
    fixed = tuple(k for k in range(2, 7) if operands[k] is not None)
    agree(*single("EmbedLayerNormalization", operands, 2, fixed))


MASKS = {
    "none": None,
    "lengths": np.array([5, 3], "i4"),
    "flags": np.array([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0]], "i4"),
    "pairs": (np.arange(50).reshape(2, 5, 5) % 7 > 0).astype("i4"),
    "ends": np.array([5, 4, 0, 1], "i4"),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("one_way", [0, 1])
def test_attention(mask: str, one_way: int) -> None:
    operands = [floats(2, 5, 8), floats(8, 24), floats(24), MASKS[mask]]
    more = {"num_heads": 2, "unidirectional": one_way, "symbolic": mask != "ends"}
    model, given = single("Attention", operands, fixed=(1, 2), **more)
    agree(model, given, atol=1e-4)


def test_attention_with_a_past() -> None:
    operands = [floats(2, 3, 8), floats(8, 24), floats(24), None, floats(2, 2, 2, 4, 4)]
    model, given = single("Attention", operands, 2, (1, 2), num_heads=2, unidirectional=1)
    agree(model, given, atol=1e-4)


def test_quantised_attention() -> None:
    operands = [small(2, 5, 8), small(8, 24, dtype="i1"), floats(24), *[scale(0.02)] * 2, None]
    operands += [zero(120), zero(3, "i1")]
    model, given = single("QAttention", operands, fixed=(1, 2, 3, 4, 6, 7), num_heads=2)
    agree(model, given, atol=1e-4)


@pytest.mark.parametrize("more", [[], [floats(24)], [None, np.array([5, 3], "i4")]])
def test_attention_of_three_operands(more: Any) -> None:
    operands = [floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 8), *more]
    model, given = single("MultiHeadAttention", operands, num_heads=2)
    agree(model, given, atol=1e-4)


def test_the_last_bit_of_a_quotient_decides_how_it_is_rounded() -> None:
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], "f4")  # -2.5 / scale is just above -127.5
    agree(*single("DynamicQuantizeLinear", [x], 3, domain=""))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("part", [0, 4])
@pytest.mark.parametrize("form", ["flat", "heads"])
def test_turned_embeddings(interleaved: int, part: int, form: str) -> None:
    x = floats(2, 5, 24) if form == "flat" else floats(2, 3, 5, 8)
    angles = RNG.random((16, (part or 8) // 2)) * 6
    tables = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    for places in (np.array([3]), RNG.integers(0, 16, (2, 5))):
        attributes: dict[str, Any] = {"interleaved": interleaved, "symbolic": False}
        if part:
            attributes |= {"rotary_embedding_dim": part, "num_heads": 3}
        agree(*single("RotaryEmbedding", [x, places, *tables], fixed=(2, 3), **attributes))


def test_attention_of_packed_operands() -> None:
    """Compares with separate operands: ONNX Runtime has no CPU kernel for packed ones."""
    whole = floats(2, 5, 4, 3, 8)
    apart = [np.ascontiguousarray(whole[:, :, :, k]).reshape(2, 5, 32) for k in range(3)]
    wanted = agree(*single("MultiHeadAttention", apart, num_heads=4))[0]
    query = apart[0]
    for operands in ([whole], [query, np.ascontiguousarray(whole[:, :, :, 1:])]):
        model, given = single("MultiHeadAttention", operands, num_heads=4)
        np.testing.assert_allclose(Backend.run_model(model, given)[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("weights_known", [False, True])
def test_products_with_weights_of_few_bits(
    zeros: str | None, bits: int, weights_known: bool
) -> None:
    if zeros == "floats" and bits != 4:
        pytest.skip("not supported by ONNX Runtime")
    x, columns, blocks, bias = floats(2, 3, 70), 9, 3, floats(9)
    weights = small(columns, blocks, 4 * bits)
    scales = np.abs(floats(columns, blocks))
    points = {
        None: None,
        "packed": small(columns, -(-blocks * bits // 8)),
        "floats": floats(columns, blocks) + 7,
    }[zeros]
    operands = [x, weights, scales, points, None, bias]
    constants = (1, 2, 3) if zeros else (1, 2)
    attributes = {"K": 70, "N": columns, "bits": bits, "block_size": 32}
    model, given = single(
        "MatMulNBits",
        operands,
        fixed=constants if weights_known else (),
        symbolic=False,
        **attributes,
    )
    agree(model, given, atol=1e-3)


@pytest.mark.parametrize("kind", ["uint8", "uint8 of 4 bits", "int4", "uint4"])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_rows_of_blocks_of_few_bits(kind: str, has_zeros: bool) -> None:
    rows, size, block = 7, 96, 32
    bits = 8 if kind == "uint8" else 4
    is_packed = kind.startswith("uint8")
    indices = RNG.integers(-rows, rows, (2, 3))
    scales = np.abs(floats(rows, size // block))
    if is_packed:
        per_byte = 8 // bits
        table, zeros = small(rows, size // per_byte), small(rows, -(-3 // per_byte))
    else:
        low = -8 if kind == "int4" else 0
        dtype = getattr(ml_dtypes, kind)
        table, zeros = [
            RNG.integers(low, low + 16, sizes).astype(dtype) for sizes in ((rows, size), (rows, 3))
        ]
    operands = [table, indices, scales, zeros if has_zeros else None]
    fixed = (0, 2, 3) if has_zeros else (0, 2)
    attributes = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    agree(*single("GatherBlockQuantized", operands, fixed=fixed, symbolic=False, **attributes))


def test_ops_of_the_default_domain() -> None:
    x = floats(2, 3, 4)
    agree(*single("ExpandDims", [x, np.array(1, "int32")], fixed=(1,), symbolic=False))
    agree(*single("GatherND", [x, np.array([[1, 2], [0, 1]])], symbolic=False))
    pads = np.array([0, 1, 0, 2, 0, 1])
    agree(*single("Pad", [x, pads, np.array([1.5], "f4")], fixed=(1, 2), symbolic=False))
    bounds = [np.array(v, "f4") for v in (1.0, 9.0, 2.0)]
    agree(*single("Range", bounds, fixed=(0, 1, 2)))


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 7, 3), (20, 2, 33)])
def test_distances_of_rows(metric: str, sizes: tuple[int, int, int]) -> None:
    rows, columns, width = sizes
    agree(*single("CDist", [floats(rows, width), floats(columns, width)], metric=metric))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding_mode: str) -> None:
    grid = RNG.uniform(-1.3, 1.3, (2, 3, 5, 2)).astype("f4")
    for corners in (0, 1):
        attributes = {"mode": mode, "padding_mode": padding_mode, "align_corners": corners}
        agree(*single("GridSample", [floats(2, 3, 4, 6), grid], symbolic=False, **attributes))


@pytest.mark.parametrize("size", [1, 30])
def test_unique_elements_in_the_order_of_their_occurrence(size: int) -> None:
    agree(*single("Unique", [RNG.integers(0, 6, size).astype("f4")], 3))


@pytest.mark.parametrize("sizes", [(3, 3), (2, 4, 4), (1, 1)])
def test_inverse(sizes: tuple[int, ...]) -> None:
    matrix = floats(*sizes) + 3 * np.eye(sizes[-1], dtype="f4")
    agree(*single("Inverse", [matrix], symbolic=False))
