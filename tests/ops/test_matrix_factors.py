"""QR factors, eigenvalues and singular values, interpreted and compiled, compared with NumPy."""

import numpy as np
import pytest

import structir
from structir.errors import StructIRError

SHAPES = [(2, 5, 3), (3, 3, 5), (1, 4, 4), (2, 1, 3), (2, 3, 1), (0, 3, 2)]
PROGRAM = """
@R.function
def main(x: R.Tensor(("b", "m", "n"), "DTYPE")):
    return R.linalg.OP(xOPTIONS)
"""


def executions(op, options="", dtype="float64"):
    """Returns the interpreted and the compiled call of an op."""
    text = PROGRAM.replace("OPTIONS", options).replace("OP", op).replace("DTYPE", dtype)
    module = structir.parse(text)
    return lambda x: structir.interpret(module, "main", x), structir.compile(module)["main"]


def matrices(shape, dtype="float64"):
    return np.random.default_rng(3).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_factors(mode, dtype):
    for run in executions("qr", f', mode="{mode}"', dtype):
        for shape in SHAPES:
            x = matrices(shape, dtype)
            for result, expected in zip(run(x), np.linalg.qr(x, mode), strict=True):
                assert result.dtype == expected.dtype
                np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


def test_qr_factors_of_dependent_columns_and_zeros():
    x = np.zeros((3, 4, 3))
    x[0, :, 0] = x[0, :, 2] = [1, 2, 3, 4]
    x[1] = np.triu(np.ones((4, 3))) * -1
    for run in executions("qr"):
        q, r = run(x)
        np.testing.assert_allclose(q @ r, x, atol=1e-12)
        np.testing.assert_allclose(q.swapaxes(1, 2) @ q, np.tile(np.eye(3), (3, 1, 1)), atol=1e-12)


@pytest.mark.parametrize("is_full", [False, True])
def test_singular_values(is_full):
    for run in executions("svd", f", full_matrices={is_full}"):
        for shape in SHAPES:
            x = matrices(shape)
            u, s, vh = run(x)
            assert (u.shape, vh.shape) == tuple(
                [part.shape for part in np.linalg.svd(x, is_full)[::2]]
            )
            np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=1e-10)
            count = s.shape[-1]
            np.testing.assert_allclose((u[..., :count] * s[:, None]) @ vh[:, :count], x, atol=1e-10)


def test_eigenvalues_of_symmetric_matrices():
    for run in executions("eigh"):
        x = matrices((3, 4, 4))
        values, vectors = run(x)
        lower = np.tril(x) + np.tril(x, -1).swapaxes(1, 2)
        np.testing.assert_allclose((vectors * values[:, None]) @ vectors.swapaxes(1, 2), lower)
        assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("op", ["svd", "eigh"])
def test_elements_that_are_not_finite_are_an_error(op):
    for run in executions(op):
        with pytest.raises(StructIRError, match="expected finite elements"):
            run(np.full((1, 2, 2), np.nan))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lu_factors(dtype):
    rng = np.random.default_rng(5)
    for run in executions("lu", dtype=dtype):
        for shape in [*SHAPES, (6, 4, 4), (2, 0, 3), (2, 3, 0)]:
            x = rng.integers(-3, 4, shape).astype(dtype)  # with ties and singular matrices
            factors, pivots, permutation = run(x)
            assert (factors.dtype, pivots.dtype, permutation.dtype) == (dtype, "int32", "int32")
            count = min(shape[1:])
            lower = np.tril(factors, -1)[..., :count] + np.eye(shape[1], count, dtype=dtype)
            assert (abs(lower) <= 1).all()
            permuted = np.take_along_axis(x, permutation[..., None].astype(int), axis=1)
            product = lower @ np.triu(factors)[:, :count]
            np.testing.assert_allclose(product, permuted, rtol=1e-4, atol=1e-4)
            for index, steps in enumerate(pivots):
                order = list(range(shape[1]))
                for step, other in enumerate(steps):
                    order[step], order[other] = order[other], order[step]
                assert order == permutation[index].tolist()
