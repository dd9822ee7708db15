"""Compares gradients and mapped functions of StructIR with those of JAX, without a compiler."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import structir
import structir.numpy

Function = Callable[..., Any]


def interpreted(function: Function, *arguments: Any) -> Any:
    """Returns the leaves of a function's result, whose program is interpreted."""
    module = structir.jit(function).trace(*arguments)
    return jax.tree.leaves(structir.interpret(module, "main", *arguments))


def assert_close(results: Any, expected: Any, tolerance: float) -> None:
    """Compares leaves: shapes, dtypes and values, where the expected ones are finite."""
    assert len(results) == len(expected)
    for result, wanted in zip(map(np.asarray, results), map(np.asarray, expected), strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        is_known = np.isfinite(wanted)
        left, right = (x[is_known].astype("float64") for x in (result, wanted))
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


def finite_sum(library: Any, numpy: Any, call: Function) -> Function:
    """Returns the sum of the finite elements of the results of a function."""

    def total(*arguments: Any) -> Any:
        leaves = jax.tree.leaves(call(library, *arguments))
        floats = [leaf for leaf in leaves if str(leaf.dtype).startswith("float")]
        parts = [numpy.sum(numpy.where(numpy.isfinite(x), x, 0.0)) for x in floats]
        return sum(parts)

    return total


def assert_gradients_equal(
    call: Function, arguments: Any, positions: Any, tolerance: float
) -> None:
    """Compares the gradients of the sum of all results by some arguments."""
    own = finite_sum(structir, structir.numpy, call)
    wanted = jax.grad(finite_sum(jax, jax.numpy, call), positions)(*arguments)
    results = interpreted(structir.grad(own, positions), *arguments)
    assert_close(results, jax.tree.leaves(wanted), tolerance)


def assert_mapped_equal(call: Function, arguments: Any, tolerance: float) -> None:
    """Compares the function mapped over the first axis of all arguments."""
    wanted = jax.vmap(lambda *x: call(jax, *x))(*arguments)
    results = interpreted(structir.vmap(lambda *x: call(structir, *x)), *arguments)
    assert_close(results, jax.tree.leaves(wanted), tolerance)
