"""Maxima, minima and activations agree with NumPy and torch on zeros, infinities and NaN."""

import numpy as np
import pytest

import structir

VALUES = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 7.0, 3e38, -3e38, 1e-45]


def results(call: str, *args: np.ndarray) -> list[np.ndarray]:
    names = ", ".join(
        f"{n}: R.Tensor(('n',), '{a.dtype}')" for n, a in zip("xy", args, strict=False)
    )
    module = structir.parse(f"@R.function\ndef main({names}):\n    return {call}\n")
    with np.errstate(all="ignore"):
        return [structir.interpret(module, "main", *args), structir.compile(module)["main"](*args)]


def assert_same(result: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_array_equal(result, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(wanted[known]))


def limited(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Computes as torch.clamp does: an element equal to a limit remains."""
    return np.where(x < low, low, np.where(x > high, high, x)).astype(x.dtype)


LIMITS = {
    "R.nn.relu(x)": (0.0, np.inf),
    "R.nn.relu6(x)": (0.0, 6.0),
    "R.clip(x, 0.0, 1.0)": (0.0, 1.0),
    "R.clip(x, -1.0, 0.0)": (-1.0, 0.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [1, 37])
def test_limits(dtype: str, length: int) -> None:
    for value in VALUES:
        x = np.full(length, value, dtype)
        for call, (low, high) in LIMITS.items():
            for result in results(call, x) if length == 1 else results(call, x)[1:]:
                assert_same(result, limited(x, low, high))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_maximum_and_minimum(dtype: str) -> None:
    x, y = [grid.ravel().astype(dtype) for grid in np.meshgrid(VALUES, VALUES)]
    for op in ("maximum", "minimum"):
        for result in results(f"R.{op}(x, y)", x, y):
            assert_same(result, getattr(np, op)(x, y))


@pytest.mark.parametrize("zero", ["0.0", "-0.0"])
def test_maximum_and_minimum_of_constant_zeros(zero: str) -> None:
    x = np.array(VALUES, "float32")
    for op in ("maximum", "minimum"):
        constant, function = f"R.const({zero}, 'float32')", getattr(np, op)
        both = results(f"R.{op}(x, {constant}), R.{op}({constant}, x)", x)
        for first, second in both:
            assert_same(first, function(x, np.float32(zero)))
            assert_same(second, function(np.float32(zero), x))


@pytest.mark.parametrize("op", ["gelu", "gelu_tanh", "silu"])
def test_activations_of_large_numbers_are_finite(op: str) -> None:
    x = np.array([3e38, -3e38, -0.0, 0.0], "float32")
    for result in results(f"R.nn.{op}(x)", x):
        assert_same(result, np.array([3e38, -0.0, -0.0, 0.0], "float32"))
