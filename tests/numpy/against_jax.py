"""Compares functions of StructIR with those of JAX."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import structir
import structir.numpy

PRECISION = {"float64": 1e-10, "float32": 4e-6, "float16": 4e-3, "bfloat16": 2e-2}


def _is_wide(value: Any) -> bool:
    return getattr(value, "dtype", None) in ("float64", "int64")


def assert_equals_jax(call: Callable[..., Any], *arguments: Any) -> None:
    """Compares values, dtypes and shapes of results, evaluated at once and traced.

    `call` takes structir or jax, and the arguments, which are arrays.
    """
    with jax.enable_x64(any(map(_is_wide, arguments))):
        wanted = jax.tree.map(np.asarray, call(jax, *map(jax.numpy.asarray, arguments)))
    expected = jax.tree.leaves(wanted)
    for results in (
        call(structir, *arguments),
        structir.jit(lambda *x: call(structir, *x))(*arguments),
    ):
        leaves = jax.tree.leaves(results)
        assert len(leaves) == len(expected)
        for result, value in zip(leaves, expected, strict=True):
            assert np.shape(result) == np.shape(value)
            assert np.asarray(result).dtype == value.dtype
            tolerance = PRECISION.get(value.dtype.name, 0)
            left, right = (np.asarray(x).astype("float64") for x in (result, value))
            np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance / 10)


def assert_gradient_equals_jax(call: Callable[..., Any], *arguments: np.ndarray) -> None:
    """Compares the gradients by float64 arguments of a weighted sum of the elements."""

    def loss(library: Any, numpy: Any) -> Callable[..., Any]:
        def weighted(*args: Any) -> Any:
            result = call(library, *args)
            weights = np.cos(np.arange(int(np.prod(result.shape)))).reshape(result.shape)
            return numpy.sum(result * weights)

        return weighted

    positions = tuple(range(len(arguments)))
    with jax.enable_x64(True):
        wanted = jax.grad(loss(jax, jax.numpy), positions)(*map(jax.numpy.asarray, arguments))
    results = structir.grad(loss(structir, structir.numpy), positions)(*arguments)
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-10, atol=1e-10)
