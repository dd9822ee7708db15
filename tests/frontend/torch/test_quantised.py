"""Quantized programs of torch: every way to quantize and dequantize, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")
pytest.importorskip("torch.ao.quantization.fx._decomposed")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
OPS = torch.ops.quantized_decomposed
BOUNDS = (-128, 127, torch.int8)
SCALES = torch.tensor([0.03, 0.11, 0.2, 0.07])
ZERO_POINTS = torch.tensor([3, -7, 0, 100])


def per_tensor(x: Any) -> Any:
    q = OPS.quantize_per_tensor(x, 0.037, 3, *BOUNDS)
    return q, OPS.dequantize_per_tensor(q, 0.037, 3, *BOUNDS)


def per_tensor_uint8(x: Any) -> Any:
    q = OPS.quantize_per_tensor(x, 0.037, 128, 0, 255, torch.uint8)
    return q, OPS.dequantize_per_tensor(q, 0.037, 128, 0, 255, torch.uint8)


def by_tensors(x: Any) -> Any:
    scale, zero_point = SCALES[1:2], ZERO_POINTS[1:2]
    q = OPS.quantize_per_tensor.tensor(x, scale, zero_point, *BOUNDS)
    return q, OPS.dequantize_per_tensor.tensor(q, scale, zero_point, *BOUNDS)


def per_channel(x: Any) -> Any:
    q = OPS.quantize_per_channel(x, SCALES, ZERO_POINTS, 1, *BOUNDS)
    return (
        q,
        OPS.dequantize_per_channel(q, SCALES, ZERO_POINTS, 1, *BOUNDS),
        OPS.dequantize_per_channel(q, SCALES, None, 1, *BOUNDS),
    )


def per_token(x: Any) -> Any:
    scales = x.abs().amax(-1, keepdim=True) / 100
    zero_points = (x.sum(-1, keepdim=True) * 3).to(torch.int64)
    q = OPS.quantize_per_token(x, scales, zero_points, *BOUNDS)
    return q, OPS.dequantize_per_token(q, scales, zero_points, *BOUNDS, torch.float32)


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    "function", [per_tensor, per_tensor_uint8, by_tensors, per_channel, per_token]
)
def test_quantized_numbers_equal_those_of_torch(function: Any) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 9) * 3
    program = torch.export.export(
        Call(function), (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)
    )
    module = from_exported_program(program)
    for operand in (x, x[:1]):
        results = structir.interpret(module, "main", operand.numpy())
        for result, expected in zip(results, function(operand), strict=True):
            assert result.dtype == expected.numpy().dtype
            np.testing.assert_array_equal(result, expected.numpy())


PRODUCTS = {
    "integers": lambda x, w, s: torch._int_mm(x.char(), w.T),
    "weights": lambda x, w, s: torch._weight_int8pack_mm(x, w, s),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_quantized_matrices(name: str) -> None:
    x = torch.randint(-128, 128, (20, 32)).float()
    weight, scales = torch.randint(-128, 128, (16, 32), dtype=torch.int8), torch.rand(16)
    operands = (x, weight, scales)
    program = torch.export.export(Product(PRODUCTS[name]), operands)
    module = from_exported_program(program)
    expected = PRODUCTS[name](*operands).numpy()
    result = structir.interpret(module, "main", *[v.numpy() for v in operands])
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-6 * np.abs(expected).max())


class Product(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, weight: Any, scales: Any) -> Any:
        return self.function(x, weight, scales)
