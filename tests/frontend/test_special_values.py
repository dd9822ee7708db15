"""Functions of several ops at infinities, NaN, signed zeros, and far from 1."""

from typing import Any

import numpy as np
import pytest

import structir
import structir.numpy as snp
import structir.scipy.special as special
from structir.frontend.special_functions import hypotenuse, is_negative, running_log_sum_exp
from structir.ir import BlockBuilder, TensorStructInfo, Var
from structir.script import R

INF, NAN = np.inf, np.nan
VALUES = np.array([0, -0.0, 1, -1, 0.5, -3.7, INF, -INF, NAN, 1e30, -1e30, 1e-30], "f")
X, Y = map(np.ascontiguousarray, np.meshgrid(VALUES, VALUES, indexing="ij"))


def evaluated(build: Any, *arrays: Any) -> Any:
    """Returns the interpreted and the compiled result of a function over the builder's `emit`."""
    builder = BlockBuilder()
    infos = [TensorStructInfo(a.shape, str(a.dtype)) for a in arrays]
    params = [Var(f"x{k}", info) for k, info in enumerate(infos)]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(build(*params, builder.emit)))
    module = builder.get()
    return structir.interpret(module, *arrays), structir.compile(module)["main"](*arrays)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_prefix_sums_of_exponentials_have_all_digits(dtype: Any) -> None:
    random = np.random.default_rng(0)
    far = [[0, 1, 200, 3, 800], [-INF, -INF, 5, -INF, 6], [1, INF, 2, 3, 4], [1, 2, NAN, 3, 4]]
    near = random.normal(size=(20, 5)) * 10.0 ** random.integers(-1, 3, (20, 1))
    x = np.concatenate([far, near]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.logaddexp.accumulate(x.astype("float64"), axis=1)
    expected[2, 1:] = INF
    for result in evaluated(lambda x, emit: running_log_sum_exp(x, 1, dtype, emit), x):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_lengths_of_hypotenuses_and_signs() -> None:
    with np.errstate(all="ignore"):
        expected = np.hypot(X, Y)
    for result in evaluated(lambda x, y, emit: hypotenuse(x, y, "float32", emit), X, Y):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    signs = np.signbit(VALUES) & ~np.isnan(VALUES)
    for result in evaluated(lambda x, emit: is_negative(x, "float32", emit), VALUES):
        np.testing.assert_array_equal(result, signs)


@pytest.mark.parametrize(
    "name", ["arctan2", "fmax", "fmin", "fmod", "heaviside", "hypot", "logaddexp", "copysign"]
)
def test_functions_of_numpy_at_special_values(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(X, Y)
    result = np.asarray(getattr(snp, name)(X, Y))
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_parts_and_diagonals_of_special_values() -> None:
    for result, expected in zip(snp.frexp(VALUES), np.frexp(VALUES), strict=True):
        np.testing.assert_array_equal(
            np.where(np.isfinite(VALUES), result, 0), np.where(np.isfinite(VALUES), expected, 0)
        )
    matrix = np.full((3, 3), NAN, "f")
    np.fill_diagonal(matrix, [1, -INF, 2])
    np.testing.assert_array_equal(snp.diagonal(matrix), [1, -INF, 2])
    assert np.isnan(snp.nanvar(np.array([1, INF, NAN], "f")))
    np.testing.assert_array_equal(special.xlogy(0.0, NAN), NAN)
    np.testing.assert_allclose(special.ndtr(np.array([-3.7], "f")), 1.0779973e-4, rtol=1e-6)


def test_equal_infinities_have_logarithms_of_sums() -> None:
    infinities = np.array([-INF, INF], "f")
    for result in evaluated(lambda x, emit: R.log_add_exp(x, x), infinities):
        np.testing.assert_array_equal(result, infinities)
