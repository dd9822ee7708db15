"""The kernel of Fourier transforms of symbolic sizes, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structir
from structir import passes
from structir.build import BlockBuilder
from structir.frontend import fourier
from structir.frontend.fourier_kernel import DTYPES
from structir.ir.dims import sym
from structir.ir.expr import Tuple, Var
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

SIZES = [(1, 1), (3, 2), (2, 3), (3, 4), (1, 7), (2, 12), (5, 16), (2, 49), (1, 60), (3, 121)]


def transforms(dtype: str, inverse: bool = False, total: bool = False) -> Any:
    """Returns a module that transforms two parts, or sums the cubes of the transform."""
    builder = BlockBuilder()
    info = TensorStructInfo((sym("rows"), sym("n")), dtype)
    params = [Var(name, info) for name in ("real", "imag")]
    with builder.function("main", params):
        parts = fourier.transform(
            builder.emit, builder.functions, (params[0], params[1]), inverse=inverse
        )
        result: Any = Tuple(parts)
        if total:
            squares = [R.sum(R.multiply(p, R.multiply(p, p))) for p in parts]
            result = builder.emit(R.add(*squares))
        builder.emit_func_output(result)
    return builder.get()


def samples(rows: int, size: int, dtype: str) -> list[Any]:
    generator = np.random.default_rng(size)
    return [generator.standard_normal((rows, size)).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_transforms_of_any_size(dtype: str, inverse: bool) -> None:
    module = transforms(dtype, inverse)
    run, closeness = structir.compile(module)["main"], 2e-6 if dtype == "float32" else 1e-14
    for rows, size in SIZES:
        real, imag = samples(rows, size, dtype)
        signal = real.astype("float64") + 1j * imag
        expected = np.fft.ifft(signal) * size if inverse else np.fft.fft(signal)
        for result in (run(real, imag), structir.interpret(module, "main", real, imag)):
            assert all([part.dtype == dtype for part in result])
            error = np.abs(result[0] + 1j * result[1] - expected).max()
            assert error <= closeness * np.abs(expected).max() * np.log2(size + 1)


def test_no_rows_and_empty_rows() -> None:
    run = structir.compile(transforms("float32"))["main"]
    for shape in ((0, 5), (3, 0)):
        empty = np.zeros(shape, "float32")
        assert [part.shape for part in run(empty, empty)] == [shape, shape]


@pytest.mark.parametrize("size", [5, 12])
def test_the_pullback_is_the_transform_in_the_other_direction(size: int) -> None:
    differentiated = passes.Gradient()(transforms("float64", total=True))
    real, imag = samples(2, size, "float64")
    _, gradients = structir.interpret(differentiated, "main_adjoint", real, imag)
    spectrum = np.fft.fft(real + 1j * imag)
    cotangent = 3 * spectrum.real**2 + 3j * spectrum.imag**2
    expected = np.fft.ifft(cotangent) * size
    np.testing.assert_allclose(gradients[0], expected.real, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradients[1], expected.imag, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [8, 9])
def test_real_signals(size: int) -> None:
    """The inverse of the first half of the coefficients is the signal."""
    builder = BlockBuilder()
    n = sym("n")
    x = Var("x", TensorStructInfo((sym("rows"), n), "float64"))
    with builder.function("main", [x]):
        half = fourier.one_sided(builder.emit, builder.functions, x)
        signal = fourier.real_inverse(builder.emit, builder.functions, half, n)
        builder.emit_func_output(Tuple((*half, signal)))
    (values, _) = samples(3, size, "float64")
    real, imag, signal = structir.compile(builder.get())["main"](values)
    np.testing.assert_allclose(real + 1j * imag, np.fft.rfft(values), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(signal, values * size, rtol=1e-10, atol=1e-12)
