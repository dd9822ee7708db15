"""Convolutions and trends of structir.scipy.signal equal those of JAX."""

import itertools

import numpy as np
import pytest

import structir
import structir.scipy
from structir.errors import DiagnosticError
from tests.cases import every_case

jax = pytest.importorskip("jax")
jax_signal = pytest.importorskip("jax.scipy.signal")
RANDOM = np.random.default_rng(0)
X, K = (RANDOM.normal(size=n).astype("float32") for n in (16, 5))
IMAGE, KERNEL = (RANDOM.normal(size=s).astype("float32") for s in ((8, 7), (3, 4)))
PAIRS = [(X, K), (X, K[:4]), (IMAGE, KERNEL), (K, X)]
FUNCTIONS = ("convolve", "correlate", "fftconvolve", "convolve2d", "correlate2d")


@every_case(("name", "mode"), list(itertools.product(FUNCTIONS, ("full", "same", "valid"))))
def test_convolutions(name: str, mode: str) -> None:
    for first, second in PAIRS:
        if first.ndim == 2 or not name.endswith("2d"):
            wanted = getattr(jax_signal, name)(first, second, mode=mode)
            result = getattr(structir.scipy.signal, name)(first, second, mode)
            assert result.dtype == wanted.dtype
            np.testing.assert_allclose(result, wanted, atol=2e-5)


def test_trends() -> None:
    for kind, axis in itertools.product(("linear", "constant"), (0, 1)):
        wanted = jax_signal.detrend(IMAGE, axis, kind)
        np.testing.assert_allclose(
            structir.scipy.signal.detrend(IMAGE, axis, kind), wanted, atol=2e-6
        )


def test_invalid_arguments_are_one_error() -> None:
    with pytest.raises(DiagnosticError, match="mode: expected one of full, same, valid"):
        structir.scipy.signal.convolve(X, K, "half")
    with pytest.raises(DiagnosticError, match="expected arrays of one rank from 1 to 3"):
        structir.scipy.signal.convolve(X, IMAGE)
    with pytest.raises(DiagnosticError, match="detrend: expected linear or constant"):
        structir.scipy.signal.detrend(X, type="cubic")
