"""Ops of opsets 23 and later with symbolic sizes, and models of dtypes below a byte."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from structir.frontend.onnx_backend import Backend
from tests.frontend.models import INT64, expected, made, node, value

RNG = np.random.default_rng(23)
HALF = TensorProto.FLOAT16
PACKED = {
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}


def floats(*shape: int, dtype: str = "float32") -> Any:
    return RNG.normal(size=shape).astype(dtype)


def agree(model: Any, inputs: dict[str, Any], tolerance: float = 1e-5) -> None:
    results = Backend.prepare(model).run(inputs)
    for result, wanted in zip(results, expected(model, inputs), strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("opset", [23, 24])
def test_attention_of_grouped_heads(opset: int) -> None:
    one = node("Attention", "q k v m", "y", q_num_heads=4, kv_num_heads=2, softcap=3.0)
    declared = [value("q", ["b", "s", 24]), *[value(n, ["b", "t", 12]) for n in "kv"]]
    given = {"q": floats(2, 5, 24), "k": floats(2, 7, 12), "v": floats(2, 7, 12)}
    given["m"] = floats(5, 7)
    agree(made([one], [*declared, value("m", ["s", "t"])], ["y"], opset=opset), given)


def test_attention_after_a_past() -> None:
    one = node("Attention", "q k v _ pk pv", "y nk nv", is_causal=1)
    declared = [value(n, ["b", 4, length, 6]) for n, length in (("q", "s"), ("k", "t"), ("v", "t"))]
    declared += [value(n, ["b", 4, "p", 6]) for n in ("pk", "pv")]
    given = {v.name: floats(2, 4, 3 if v.name[0] == "p" else 5, 6) for v in declared}
    agree(made([one], declared, ["y", "nk", "nv"], opset=24), given)


def test_rotary_embedding_of_symbolic_length() -> None:
    one = node("RotaryEmbedding", "x c s p", "y", num_heads=4, interleaved=1)
    tables = [value(name, ["m", 3]) for name in "cs"]
    declared = [value("x", ["b", "l", 24]), *tables, value("p", ["b", "l"], INT64)]
    given = {"x": floats(2, 5, 24), "c": floats(9, 3), "s": floats(9, 3)}
    agree(made([one], declared, ["y"], opset=23), given | {"p": RNG.integers(0, 9, (2, 5))})


@pytest.mark.parametrize("scale", ["float16", "float32"])
def test_root_mean_square_is_computed_in_float32(scale: str) -> None:
    kind = HALF if scale == "float16" else TensorProto.FLOAT
    declared = [value("x", ["n", 24], HALF), value("w", [24], kind)]
    model = made([node("RMSNormalization", "x w", "y")], declared, ["y"], opset=23)
    x = floats(4, 24, dtype="float16") * np.float16(1000)
    w = floats(24, dtype=scale)
    (result,) = Backend.prepare(model).run({"x": x, "w": w})
    wide = x.astype("float64")
    wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * w
    assert result.dtype == w.dtype
    np.testing.assert_allclose(result, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", PACKED)
def test_quantized_blocks(kind: int) -> None:
    dtype = PACKED[kind]
    scales = np.float32([[0.5, 0.25], [1, 2], [0.5, 0.5]])
    weight = RNG.integers(0, 6, (3, 6)).astype("float32").astype(dtype)
    nodes = [
        node("DequantizeLinear", "w s", "a", axis=1, block_size=3),
        node("QuantizeLinear", "x s", "q", axis=1, block_size=3, output_dtype=kind),
        node("DequantizeLinear", "q s", "b", axis=1, block_size=3),
        helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT),
        node("Sum", "a b c", "y"),
    ]
    model = made(nodes, [value("x", [3, 6])], ["y"], {"s": scales}, opset=23)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    agree(model, {"x": floats(3, 6) * 3})


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_to_powers_of_two(mode: str, saturate: int) -> None:
    kind = TensorProto.FLOAT8E8M0
    to = helper.make_node("Cast", ["x"], ["q"], to=kind, round_mode=mode, saturate=saturate)
    back = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    x = np.abs(floats(40)) * np.float32(10.0) ** RNG.integers(-30, 30, 40).astype("float32")
    x = np.concatenate([x, np.float32([1, 1.5, 2, 3, 3.1, 1e-39, 3.4e38, np.nan])])
    agree(made([to, back], [value("x", ["n"])], ["y"], opset=24), {"x": x})
