"""Ops on dequantized operands: products of integers, weights as constants, cancelled pairs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import structir
from structir.frontend.onnx import from_onnx
from tests.frontend.models import expected, made, node, value

X_SCALE, X_ZERO = np.float32(0.03), 117


def drawn(dtype: str, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return np.random.default_rng(len(shape)).integers(limits.min, limits.max + 1, shape, dtype)


def weights_of(dtype: str, per_column: bool) -> dict[str, Any]:
    """Weights of 24 x 19, their scale and their zero point."""
    scale = np.linspace(0.01, 0.05, 19, dtype=np.float32) if per_column else np.float32(0.02)
    zero = drawn(dtype, 19) if per_column else np.array(3, dtype)
    return {"w": drawn(dtype, 24, 19), "ws": scale, "wz": zero}


def run(model: Any, *arrays: Any) -> tuple[Any, str]:
    """The first output of the compiled model, and the text of the program."""
    module = from_onnx(model)
    result = structir.compile(module, num_threads=1)["main"](*arrays)
    return np.asarray(result[0] if isinstance(result, tuple) else result), module.script()


DTYPES = list(itertools.product(("uint8", "int8"), ("uint8", "int8"), (False, True)))


@pytest.mark.parametrize(("left", "right", "per_column"), DTYPES)
def test_products_are_exact_integer_products(left: str, right: str, per_column: bool) -> None:
    constants = weights_of(right, per_column) | {"xs": X_SCALE, "xz": np.array(X_ZERO, left)}
    nodes = [
        node("DequantizeLinear", "x xs xz", "a"),
        node("DequantizeLinear", "w ws wz", "b", axis=1),
        node("MatMul", "a b", "y"),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(left))
    x = drawn(left, 2, 5, 24)
    result, text = run(made(nodes, [value("x", [2, "n", 24], kind)], ["y"], constants), x)
    shifted = constants["w"].astype(np.int32) - constants["wz"].astype(np.int32)
    integers = (x.astype(np.int32) - X_ZERO) @ shifted
    floats = integers.astype(np.float32) * (X_SCALE * constants["ws"])
    assert 'out_dtype="int32"' in text
    np.testing.assert_array_equal(result, floats)


@pytest.mark.parametrize("flags", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("per_column", [False, True])
def test_gemm(flags: tuple[int, int], per_column: bool) -> None:
    constants = weights_of("int8", per_column) | {"xs": X_SCALE, "c": np.ones(19, np.float32)}
    constants["wz"] = np.zeros_like(constants["wz"])
    if flags[1]:
        constants["w"] = np.ascontiguousarray(constants["w"].T)
    nodes = [
        node("DequantizeLinear", "x xs", "a"),
        node("DequantizeLinear", "w ws wz", "b", axis=1 - flags[1]),
        node("Gemm", "a b c", "y", transA=flags[0], transB=flags[1], alpha=0.5, beta=2.0),
    ]
    x = drawn("int8", 24, 7) if flags[0] else drawn("int8", 7, 24)
    model = made(nodes, [value("x", list(x.shape), TensorProto.INT8)], ["y"], constants)
    result, text = run(model, x)
    assert 'out_dtype="int32"' in text
    np.testing.assert_allclose(result, expected(model, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_transposed_and_reshaped_weights_stay_integers() -> None:
    constants = weights_of("int8", per_column=False) | {"xs": X_SCALE, "flat": [24, 19]}
    constants["w"] = np.ascontiguousarray(constants["w"].reshape(2, 12, 19).transpose(2, 0, 1))
    nodes = [
        node("DequantizeLinear", "x xs", "a"),
        node("DequantizeLinear", "w ws wz", "b"),
        node("Transpose", "b", "b1", perm=[1, 2, 0]),
        node("Reshape", "b1 flat", "b2"),
        node("MatMul", "a b2", "y"),
    ]
    x = drawn("int8", 5, 24)
    model = made(nodes, [value("x", [5, 24], TensorProto.INT8)], ["y"], constants)
    result, text = run(model, x)
    assert 'out_dtype="int32"' in text
    np.testing.assert_allclose(result, expected(model, {"x": x})[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["MatMul", "Conv", "ConvTranspose"])
def test_weights_of_float_operands_are_constants(op: str) -> None:
    """More elements than are folded otherwise; a scale for each block of 16 terms of a product."""
    shape, axis = ((320, 272), 0) if op == "MatMul" else ((128, 128, 3, 3), 0)
    scale = np.full((20, 272) if op == "MatMul" else 128, 0.02, np.float32)
    constants = {"w": drawn("int8", *shape), "ws": scale}
    more = {"block_size": 16} if op == "MatMul" else {}
    nodes = [node("DequantizeLinear", "w ws", "b", axis=axis, **more), node(op, "x b", "y")]
    sizes = [3, 320] if op == "MatMul" else [1, 128, 5, 5]
    x = np.random.default_rng(0).standard_normal(sizes, np.float32)
    model = made(nodes, [value("x", sizes)], ["y"], constants)
    result, text = run(model, x)
    assert "R.multiply" not in text
    np.testing.assert_allclose(result, expected(model, {"x": x})[0], rtol=1e-3, atol=1e-2)


def test_rows_of_a_table_are_gathered_before_they_are_dequantized() -> None:
    constants = {"t": drawn("uint8", 900, 100), "ts": X_SCALE, "tz": np.uint8(9)}
    nodes = [node("DequantizeLinear", "t ts tz", "f"), node("Gather", "f i", "y")]
    model = made(nodes, [value("i", ["n"], TensorProto.INT64)], ["y"], constants)
    indices = np.array([3, 899, -1, 0])
    result, text = run(model, indices)
    assert "(900, 100)" not in text
    np.testing.assert_array_equal(result, expected(model, {"i": indices})[0])


@pytest.mark.parametrize("second", [0.03, 0.04])
def test_pairs_of_equal_parameters_cancel(second: float) -> None:
    constants = {"s": X_SCALE, "z": np.int8(-5), "s2": np.float32(second)}
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("Transpose", "d", "t", perm=[1, 0]),
        node("QuantizeLinear", "t s2 z", "q2"),
        node("DequantizeLinear", "q2 s2 z", "y"),
    ]
    model = made(nodes, [value("x", [6, 50])], ["y", "q2"], constants)
    x = np.linspace(-5, 5, 300, dtype=np.float32).reshape(6, 50)
    module = from_onnx(model)
    found = structir.compile(module)["main"](x)
    for result, reference in zip(found, expected(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(np.asarray(result), reference)
    assert module.script().count("R.round") == (1 if second == 0.03 else 2)


def test_sums_that_may_exceed_int32_are_floats() -> None:
    terms = 70_000
    constants = {"w": np.full((terms, 1), -128, np.int8), "s": np.float32(1)}
    nodes = [
        node("DequantizeLinear", "x s", "a"),
        node("DequantizeLinear", "w s", "b"),
        node("MatMul", "a b", "y"),
    ]
    model = made(nodes, [value("x", [2, terms], TensorProto.UINT8)], ["y"], constants)
    result, text = run(model, np.full((2, terms), 255, np.uint8))
    assert "int32" not in text.split("matmul")[1]
    np.testing.assert_allclose(result, -128.0 * 255 * terms, rtol=1e-3)
