"""Functions of `structir.numpy`, `nn` and `scipy.linalg` compared with those of JAX.

Derivatives: see `tests/data/mapped_derivatives.py`, which stored those of JAX.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import structir
import structir.lax
import structir.nn
import structir.numpy
import structir.random
import structir.scipy.linalg
from structir.errors import DiagnosticError

jax = pytest.importorskip("jax")

from tests.data.mapped_derivatives import (  # noqa: E402
    ARGUMENTS,
    MODULES,
    RANDOM,
    STORED,
    expected,
    names,
    second_derivative,
)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


DERIVATIVES = np.load(STORED)
DESCRIBED = json.loads(str(DERIVATIVES["described"]))
NEW = sorted(set(names()) - set(DESCRIBED["names"]))  # JAX computes their derivatives now
COMPILED = sorted(DESCRIBED["arguments"])[::3]


def derivatives(name: str) -> tuple[int, list[np.ndarray]] | None:
    if name in NEW:
        return expected(name)
    parts = [DERIVATIVES[f"{name}/{k}"] for k in range(3)]
    return DESCRIBED["arguments"][name], parts


@pytest.mark.parametrize("name", [*DESCRIBED["arguments"], *NEW])
def test_derivatives_of_mapped_functions_equal_those_of_jax(name: str) -> None:
    """A third is compiled. The interpreter runs what the transformations made of the others."""
    module, function = name.split(".")
    case = derivatives(name)
    if case is None:
        return
    arguments = ARGUMENTS[case[0]]
    derivative = second_derivative(structir, getattr(MODULES[module][0], function), structir.numpy)
    if name in COMPILED or name in NEW:
        results = structir.jit(derivative)(*arguments)
    else:
        module = structir.jit(derivative).trace(*arguments)
        results = structir.interpret(module, "main", *arguments)
    for result, wanted in zip(results, case[1], strict=True):
        assert result.shape == wanted.shape
        limit = 1e-8 * max(1, np.max(np.abs(wanted)))
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=limit)


A, TALL = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(5, 3))
POSITIVE, RIGHT = A @ A.T + 4 * np.eye(4), RANDOM.normal(size=(4, 2))
WIDE, VECTOR = TALL.T.copy(), RIGHT[:, 0].copy()
NOT_SYMMETRIC = POSITIVE + np.triu(A, 1)
# The signs of orthonormal vectors are free.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda s, _: (s.cholesky(NOT_SYMMETRIC), s.cholesky(NOT_SYMMETRIC, lower=True)),
    "eigh": lambda s, _: (s.eigh(A, eigvals_only=True), s.eigh(POSITIVE, lower=False)[0]),
    "svd": lambda s, _: [abs(x) for x in s.svd(TALL, full_matrices=False)],
    "full svd": lambda s, _: [x.shape for x in s.svd(TALL)] + [s.svd(WIDE, compute_uv=False)],
    "qr": lambda s, _: [abs(x) for m in ("full", "economic", "r") for x in s.qr(TALL, mode=m)],
    "solve": lambda s, _: (s.solve(A, RIGHT), s.solve(A, VECTOR)),
    "solve pos": lambda s, _: s.solve(NOT_SYMMETRIC, VECTOR, assume_a="pos", lower=True),
    "lu": lambda s, _: (s.lu(A), s.lu(TALL), s.lu(WIDE), s.lu(A, permute_l=True), s.lu_factor(A)),
    "lu_solve": lambda s, _: [s.lu_solve(s.lu_factor(A), b) for b in (VECTOR, RIGHT)],
    "lu_solve transposed": lambda s, _: s.lu_solve(s.lu_factor(A), RIGHT, trans=1),
    "expm": lambda s, _: [s.expm(x) for x in (A, A * 10, A * 0.01, np.stack([A, POSITIVE]))],
    "block_diag": lambda s, _: s.block_diag(A, TALL, 3.0, VECTOR),
    "toeplitz": lambda s, _: (s.toeplitz(VECTOR), s.toeplitz(VECTOR, VECTOR[:3])),
    "polar": lambda s, _: s.polar(TALL),
    "numpy.eigh": lambda _, np: (np.linalg.eigh(A)[0], np.linalg.eigvalsh(A)),
    "numpy.eigh upper": lambda _, np: np.linalg.eigh(A, UPLO="U", symmetrize_input=False)[0],
    "numpy.cholesky": lambda _, np: [np.linalg.cholesky(POSITIVE, upper=u) for u in (True, False)],
    "numpy.qr": lambda _, np: [abs(x) for m in ("reduced", "complete") for x in np.linalg.qr(A, m)],
    "numpy.qr r": lambda _, np: abs(np.linalg.qr(TALL, mode="r")),
    "numpy.svd": lambda _, np: [x.shape for x in np.linalg.svd(TALL)],
    "numpy.pinv": lambda _, np: (np.linalg.pinv(TALL), np.linalg.pinv(WIDE)),
    "linspace": lambda _, np: np.linspace(VECTOR, RIGHT[:, 1], 7, endpoint=False),
    "logspace": lambda _, np: np.logspace(VECTOR, 2.0, 4, endpoint=False),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_equal_those_of_jax(name: str) -> None:
    call = CALLS[name]
    wanted = jax.tree.leaves(call(jax.scipy.linalg, jax.numpy))
    results = jax.tree.leaves(call(structir.scipy.linalg, structir.numpy))
    assert len(results) == len(wanted)
    for result, value in zip(results, wanted, strict=True):
        assert np.shape(result) == np.shape(value)
        np.testing.assert_allclose(result, value, rtol=1e-9, atol=1e-11)


# Functions of (matrix, scipy.linalg, numpy) that do not depend on the signs of the vectors.
FACTORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "svd": lambda x, _, np: [abs(f) ** 3 for f in np.linalg.svd(x, full_matrices=False)],
    "singular values": lambda x, _, np: [np.linalg.svd(x, compute_uv=False)],
    "qr": lambda x, _, np: [f**2 for f in np.linalg.qr(x)],
    "r": lambda x, _, np: [np.linalg.qr(x, mode="r") ** 2],
    "lu": lambda x, s, np: [np.sin(s.lu_factor(x)[0])],
    "eigh": lambda x, _, np: [f**2 for f in np.linalg.eigh(np.matmul(np.swapaxes(x, -1, -2), x))],
    "expm": lambda x, s, np: [s.expm(np.matmul(np.swapaxes(x, -1, -2), x))],
    "pinv": lambda x, _, np: [np.linalg.pinv(x)],
}


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("name", FACTORS)
def test_gradients_of_factors_equal_those_of_jax(name: str, shape: tuple[int, ...]) -> None:
    if name == "eigh" and shape[-2] < shape[-1]:
        return  # equal eigenvalues, which have no derivative
    value = RANDOM.normal(size=shape)

    def gradient(library: Any, scipy: Any, numpy: Any) -> Any:
        def scalar(x: Any) -> Any:
            return sum(numpy.sum(f * f.shape[-1]) for f in FACTORS[name](x, scipy, numpy))

        return library.grad(scalar)

    wanted = jax.jit(gradient(jax, jax.scipy.linalg, jax.numpy))(value)
    result = gradient(structir, structir.scipy.linalg, structir.numpy)(value)
    np.testing.assert_allclose(result, wanted, rtol=1e-7, atol=1e-7)


VALUES, FACTOR = (RANDOM.normal(size=(3, 4)).astype("float32") for _ in range(2))
POSITIVES = VALUES > 0
NUMBERS = np.array([2, 1, 2, 0, 1, 0], "int32"), np.arange(6, dtype="float32")
# Functions of structir or jax.
KEYWORDS: dict[str, Callable[[Any], Any]] = {
    "log_softmax": lambda j: j.nn.log_softmax(VALUES, where=POSITIVES),
    "logsumexp": lambda j: j.nn.logsumexp(VALUES, axis=1, where=POSITIVES, keepdims=True),
    "logsumexp sign": lambda j: j.nn.logsumexp(VALUES, axis=1, b=FACTOR, return_sign=True),
    "logsumexp signs": lambda j: j.nn.logsumexp(VALUES, b=FACTOR, return_sign=True),
    "standardize": lambda j: j.nn.standardize(VALUES, where=VALUES > -0.9),
    "standardize by": lambda j: j.nn.standardize(VALUES, mean=0.5, variance=2.0),
    "softmax of all": lambda j: j.scipy.special.softmax(VALUES),
    "log_softmax of all": lambda j: j.scipy.special.log_softmax(VALUES),
    "log_softmax of rows": lambda j: j.scipy.special.log_softmax(VALUES, axis=0),
    "top_k": lambda j: j.lax.top_k(VALUES, 2, axis=0),
    "sort": lambda j: j.lax.sort(NUMBERS),
    "sort by two": lambda j: j.lax.sort((NUMBERS[0], -NUMBERS[1], NUMBERS[1]), num_keys=2),
    "unique": lambda j: j.numpy.unique(NUMBERS[0], True, True, True),
    **{
        f"unique {size}": lambda j, size=size: j.numpy.unique(
            NUMBERS[0].reshape(2, 3), True, True, True, size=size
        )
        for size in (2, 3, 5)
    },
    "truncated_normal": lambda j: j.random.truncated_normal(
        j.random.key(1), np.array([-1, 0], "float32"), np.array([1, 2], "float32"), None, "float32"
    ),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_have_the_meaning_of_jax(name: str) -> None:
    wanted = jax.tree.leaves(KEYWORDS[name](jax))
    for result, value in zip(jax.tree.leaves(KEYWORDS[name](structir)), wanted, strict=True):
        assert (result.shape, result.dtype.kind) == (value.shape, value.dtype.kind)
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_random_bits_equal_those_of_jax(dtype: str) -> None:
    wanted = jax.random.bits(jax.random.key(3), (7,), dtype)
    np.testing.assert_array_equal(structir.random.bits(structir.random.key(3), (7,), dtype), wanted)


@pytest.mark.parametrize("independent", [False, True])
def test_random_permutations_equal_those_of_jax(independent: bool) -> None:
    wanted = jax.random.permutation(jax.random.key(3), WIDE, 1, independent)
    key = structir.random.key(3)
    np.testing.assert_array_equal(structir.random.permutation(key, WIDE, 1, independent), wanted)


def test_reshape_permutes_axes_first() -> None:
    wanted = jax.lax.reshape(TALL, (3, 5), dimensions=(1, 0))
    np.testing.assert_array_equal(structir.lax.reshape(TALL, (3, 5), (1, 0)), wanted)


def test_an_array_for_the_result_is_an_error() -> None:
    with pytest.raises(DiagnosticError, match="sum: out: arrays do not change in place"):
        structir.numpy.sum(A, out=A)


def test_starts_of_slices_count_from_the_end_as_in_jax() -> None:
    def parts(lax: Any, x: Any, k: Any) -> Any:
        row = lax.dynamic_index_in_dim(x, k, axis=1)
        return lax.dynamic_slice_in_dim(x, k, 2), lax.dynamic_update_slice_in_dim(x, row, k, axis=1)

    x, mapped = np.arange(12.0).reshape(3, 4), structir.jit(lambda x, k: parts(structir.lax, x, k))
    for k in range(-6, 6):
        results = zip(mapped(x, np.int32(k)), parts(jax.lax, x, k), strict=True)
        assert all(np.array_equal(mine, theirs) for mine, theirs in results)
    with pytest.raises(DiagnosticError, match="at most 3 elements, found 9"):
        structir.lax.dynamic_slice_in_dim(x, 0, 9)
