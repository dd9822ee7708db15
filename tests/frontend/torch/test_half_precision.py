"""Checks ops on 16-bit floats, which torch computes in float32 and rounds once, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

from structir.frontend.torch import from_exported_program  # noqa: E402
from structir.frontend.torch.tensors import as_array  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

F = torch.nn.functional

# Some results have other digits, or are infinite, if a number or an intermediate is rounded.
OPS = {
    "mul": lambda x: x * 0.1234567,
    "mul by a large number": lambda x: x * 65536,
    "mul by a scalar tensor": lambda x: x * torch.tensor(65536.0),
    "a scalar tensor by x": lambda x: torch.tensor(0.1234567) * x,
    "div": lambda x: x / 0.1234567,
    "div by a large number": lambda x: x / 1e5,
    "div of a number": lambda x: 0.1234567 / x,
    "floor_divide": lambda x: x // 0.1234567,
    "div, trunc": lambda x: torch.div(x, 0.1234567, rounding_mode="trunc"),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.1234567),
    "addcmul": lambda x: torch.addcmul(x, x * 1e-3, x, value=1e4),
    "addcdiv": lambda x: torch.addcdiv(x, x, x + 1, value=0.1234567),
    "elu": lambda x: F.elu(-x, 0.1234567),
    "celu": lambda x: F.celu(-x, 0.1234567),
    "log10": lambda x: x.log10(),
    "rad2deg": lambda x: x.rad2deg(),
    "round": lambda x: (x * 50).round(decimals=1),
    "hardswish": lambda x: F.hardswish(x * 9 - 6),
    "mish": lambda x: F.mish(x * 9 - 6),
    "glu": lambda x: F.glu(x),
    "add, alpha": lambda x: torch.add(x, x.flip(0), alpha=0.1234567),
    "add of a number, alpha": lambda x: torch.add(x, 0.1234567, alpha=2.1),
    "add of a number": lambda x: x + 0.1234567,
    "add of a scalar tensor": lambda x: x + torch.tensor(0.1234567),
    "sub, alpha": lambda x: torch.sub(x, x.flip(0), alpha=1.7),
    "sub from a number": lambda x: 0.1234567 - x,
    "rsub, alpha": lambda x: torch.rsub(x, x.flip(0), alpha=0.7),
    **{f"pow {n}": lambda x, n=n: x**n for n in (2, 3, 4, 0.5, -0.5, -1, -2, 1.3)},
    "pow of a number": lambda x: 2.1**x,
    "pow of tensors": lambda x: x ** x.flip(0),
    "softmax": lambda x: F.softmax((x * 4).reshape(8, 128), -1),
    "softmin": lambda x: F.softmin((x * 4).reshape(8, 128), -1),
    "layer_norm": lambda x: F.layer_norm(x.reshape(8, 128), (128,), x[:128], x[128:256]),
    "rms_norm": lambda x: F.rms_norm(x.reshape(8, 128), (128,), x[:128]),
    "group_norm": lambda x: F.group_norm(x.reshape(4, 8, 32), 4, x[:8], x[8:16]),
    "linear": lambda x: F.linear(x.reshape(32, 32), x.reshape(32, 32), x[:32] * 0.01),
    "var": lambda x: x.reshape(64, 16).var(-1),
    "std": lambda x: x.reshape(64, 16).std(-1, correction=0),
    "var_mean": lambda x: torch.var_mean(x.reshape(64, 16), -1)[0],
}
LARGE_OPS = {
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "attention, mask": lambda x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], attn_mask=torch.ones(20, 20, dtype=torch.bool).tril()
    ),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1),
    "normalize": lambda x: F.normalize(x),
    "weight_norm": lambda x: torch._weight_norm(x, x[:, :1], 0),
    "hypot": lambda x: torch.hypot(x, x),
}


def _run(function: Any, x: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns torch's result, and those of the compiled and the interpreted import."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    module = from_exported_program(torch.export.export(Model(), (x,)))
    array = as_array(x)
    results = structir.compile(module)["main"](array), structir.interpret(module, "main", array)
    return function(x).float().numpy(), [np.asarray(each).astype("float32") for each in results]


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_results_are_rounded_once(name: str, dtype: str) -> None:
    # a multiple of the vectors of torch, whose other elements may have other digits
    x = (torch.rand(1024, generator=torch.Generator().manual_seed(0)) + 0.5).to(
        getattr(torch, dtype)
    )
    expected, results = _run(OPS[name], x)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=0.01)
        assert np.mean(result != expected) <= 0.002  # ties of approximate functions


@pytest.mark.parametrize("name", LARGE_OPS)
def test_sums_of_squares_beyond_float16_are_finite(name: str) -> None:
    x = torch.rand(20, 50, generator=torch.Generator().manual_seed(0)) * 200 + 200
    expected, results = _run(LARGE_OPS[name], x.half())
    assert np.isfinite(expected).all()
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=2e-3)


def test_elu_of_small_numbers() -> None:
    x = -torch.logspace(-9, 0, 50)
    expected, results = _run(lambda x: F.elu(x), x)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
