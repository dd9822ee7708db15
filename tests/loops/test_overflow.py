"""Compiled kernels overflow or cancel only where the definition of an op does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structir

Array = np.ndarray[Any, np.dtype[Any]]
HUGE = {"float32": 3e38, "float64": 1.7e308, "float16": 6e4}
ACTIVATIONS = ["gelu", "gelu_tanh", "silu", "softplus", "selu", "softmax", "log_softmax"]
MAPS = ["exp", "sigmoid", "tanh", "sinh", "cosh", "erf", "asinh", "log", "sqrt", "square", "rsqrt"]
PRODUCTS = [
    "1e30 * x * 1e30 * 1e-30",
    "x * 1e30 * 1e30",
    "x * 1e-30 * 1e-30",
    "0.5 * x * y",
    "1e20 * x * y",
    "x * (1.0 + R.tanh(y))",
    "0.5 * x * (1.0 + R.tanh(y))",
    "0.25 * x * (y + 1.0) * 8.0",
]
NUMBERS = [10.0**k for k in range(-37, 39, 3)]


def both(params: str, line: str, *args: Array, threads: int = 1) -> tuple[Array, Array]:
    """What is compiled, and what is interpreted."""
    module = structir.parse(f"@R.function\ndef main({params}):\n    return {line}\n")
    compiled = structir.compile(module, num_threads=threads)["main"](*args)
    with np.errstate(all="ignore"):
        return np.asarray(compiled), np.asarray(structir.interpret(module, "main", *args))


def assert_no_worse(compiled: Array, wanted: Array, line: str) -> None:
    """Equal up to rounding, wherever the definition has a number."""
    numbers = np.isfinite(wanted)
    assert (np.isnan(compiled) == np.isnan(wanted)).all(), line
    close = np.isclose(compiled[numbers], wanted[numbers], rtol=2e-3 if "16" in line else 2e-5)
    assert close.all(), (line, compiled[numbers][~close], wanted[numbers][~close])


@pytest.mark.parametrize("dtype", HUGE)
def test_functions_at_the_ends_of_the_floats(dtype: str) -> None:
    huge = HUGE[dtype]
    x = np.array([huge, -huge, huge / 3, -huge / 3, np.inf, -np.inf, np.nan, 0, 1, -1], dtype)
    for name in [*(f"nn.{a}" for a in ACTIVATIONS), *MAPS]:
        line = f"R.{name}(x)"
        assert_no_worse(*both(f'x: R.Tensor(("n",), "{dtype}")', line, x), f"{line} {dtype}")


@pytest.mark.parametrize("line", PRODUCTS)
def test_products_with_constants(line: str) -> None:
    x, y = (g.astype(np.float32).ravel() for g in np.meshgrid([0.0, *NUMBERS, 3e38], NUMBERS))
    params = 'x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")'
    compiled, wanted = both(params, line, x, y)
    normal = np.isfinite(wanted) & ((wanted == 0) | (np.abs(wanted) > 2e-38))
    assert_no_worse(compiled[normal], wanted[normal], line)


@settings(max_examples=12)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 300),
    dtype=st.sampled_from(["float32", "float64"]),
    line=st.sampled_from(["R.prod(x)", "R.prod(x, axis=[0])", "R.prod(x, axis=[1])"]),
    turned=st.booleans(),
    threads=st.integers(1, 2),
)
def test_a_product_multiplies_its_factors_in_order(
    rows: int, columns: int, dtype: str, line: str, turned: bool, threads: int
) -> None:
    """Every other factor is huge, the rest tiny: the product of any few is no number."""
    half = np.sqrt(HUGE[dtype])
    x = np.where(np.arange(rows * columns) % 2 == 0, half, 1 / half).astype(dtype)
    x = x.reshape(columns, rows).T.copy() if turned else x.reshape(rows, columns)
    params = f'x: R.Tensor(("n", "k"), "{dtype}")'
    compiled, wanted = both(params, line, x, threads=threads)
    assert_no_worse(compiled, wanted, line)
    assert np.isfinite(compiled[np.isfinite(wanted)]).all()
