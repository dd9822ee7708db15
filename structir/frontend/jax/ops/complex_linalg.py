"""Rules of linear algebra and of products at indices for complex numbers, in terms of JAX."""

from __future__ import annotations

from typing import Any

from structir.frontend.jax.complex_rules import (
    Pair,
    as_pair,
    bound,
    complex_rule,
    magnitude,
    quotient,
    times,
)
from structir.lazy import lazy_module

jax = lazy_module("jax")
jnp = lazy_module("jax.numpy")
lax = lazy_module("jax.lax")


def _of_batches(function: Any, rank: int) -> Any:
    """Returns a function of matrices as one of arrays of a rank."""
    for _ in range(rank - 2):
        function = jax.vmap(function)
    return function


@complex_rule("lu")
def triangular_factors(equation: Any, x: Pair) -> list[Any]:
    """Builds the factors, the row exchanges and the permutation, with the pivots of LAPACK."""
    real, imag, *orders = _of_batches(_eliminated, x.real.ndim)(x.real, x.imag)
    return [Pair(real, imag), *orders]


def _eliminated(real: Any, imag: Any) -> tuple[Any, ...]:
    count, columns = real.shape
    rows, places = jnp.arange(count), jnp.arange(columns)
    steps = min(count, columns)

    def step(k: Any, state: Any) -> Any:
        real, imag, pivots, order = state
        size = jnp.where(rows >= k, jnp.abs(real[:, k]) + jnp.abs(imag[:, k]), -1)
        other = jnp.argmax(size).astype("int32")
        exchanged = jnp.where(rows == k, other, jnp.where(rows == other, k, rows))
        real, imag, order = real[exchanged], imag[exchanged], order[exchanged]
        row, column = (Pair(*[part[at] for part in (real, imag)]) for at in (k, (slice(None), k)))
        pivot = Pair(row.real[k], row.imag[k])
        is_below = (rows > k) & ((pivot.real != 0) | (pivot.imag != 0))
        safe = Pair(jnp.where(is_below, pivot.real, 1), jnp.where(is_below, pivot.imag, 0))
        factors = quotient(column, safe)
        parts = [jnp.where(is_below, a, b) for a, b in zip(factors, column, strict=True)]
        real, imag = (x.at[:, k].set(part) for x, part in zip((real, imag), parts, strict=True))
        change = times(Pair(*[part[:, None] for part in parts]), Pair(*[r[None] for r in row]))
        rest = (rows > k)[:, None] & (places > k)
        real = real - jnp.where(rest, change.real, 0)
        return real, imag - jnp.where(rest, change.imag, 0), pivots.at[k].set(other), order

    order = jnp.arange(count, dtype="int32")
    return tuple(lax.fori_loop(0, steps, step, (real, imag, jnp.zeros(steps, "int32"), order)))


@complex_rule("triangular_solve")
def triangular_solution(equation: Any, a: Any, b: Any) -> Pair:
    """Builds the solution by substitution, one row of the unknowns after the other."""
    params, matrix, right = equation.params, as_pair(a), as_pair(b)
    lower = params["lower"]
    if params["conjugate_a"]:
        matrix = Pair(matrix.real, -matrix.imag)
    if bool(params["transpose_a"]) == bool(params["left_side"]):
        matrix, lower = _transposed(matrix), not lower
    right = right if params["left_side"] else _transposed(right)

    def solve(*parts: Any) -> Any:
        return _substituted(Pair(*parts[:2]), Pair(*parts[2:]), lower, params["unit_diagonal"])

    result = Pair(*_of_batches(solve, right.real.ndim)(*matrix, *right))
    return result if params["left_side"] else _transposed(result)


def _transposed(x: Pair) -> Pair:
    return Pair(*[jnp.swapaxes(part, -1, -2) for part in x])


def _substituted(matrix: Pair, right: Pair, lower: bool, has_unit_diagonal: bool) -> Pair:
    count = right.real.shape[0]
    places = jnp.arange(count)

    def step(position: Any, solution: Pair) -> Pair:
        k = position if lower else count - 1 - position
        is_known = places < k if lower else places > k
        row = Pair(*[jnp.where(is_known, part[k], 0) for part in matrix])
        real = right.real[k] - (row.real @ solution.real - row.imag @ solution.imag)
        imag = right.imag[k] - (row.real @ solution.imag + row.imag @ solution.real)
        value = Pair(real, imag)
        if not has_unit_diagonal:
            value = quotient(value, Pair(matrix.real[k, k], matrix.imag[k, k]))
        return Pair(*[x.at[k].set(part) for x, part in zip(solution, value, strict=True)])

    start = Pair(jnp.zeros_like(right.real), jnp.zeros_like(right.real))
    return lax.fori_loop(0, count, step, start)


@complex_rule("cholesky")
def positive_factor(equation: Any, x: Pair) -> Pair:
    """Builds the lower factor, one column after the other."""
    return Pair(*_of_batches(_factored, x.real.ndim)(*x))


def _factored(real: Any, imag: Any) -> Any:
    count = real.shape[0]
    places = jnp.arange(count)

    def step(k: Any, state: Any) -> Any:
        left, right = state
        row = Pair(left[k], -right[k])
        product = Pair(
            left @ row.real - right @ row.imag, left @ row.imag + right @ row.real
        )  # of the known columns
        diagonal = jnp.sqrt(real[k, k] - product.real[k])
        is_below = places > k
        first = jnp.where(is_below, (real[:, k] - product.real) / diagonal, 0)
        second = jnp.where(is_below, (imag[:, k] - product.imag) / diagonal, 0)
        return left.at[:, k].set(first.at[k].set(diagonal)), right.at[:, k].set(second)

    return lax.fori_loop(0, count, step, (jnp.zeros_like(real), jnp.zeros_like(imag)))


@complex_rule("scatter-mul", "scatter_mul")
def products_at_indices(equation: Any, x: Any, indices: Any, updates: Any) -> Pair:
    """Builds the product by an array of factors: of magnitudes and angles if indices repeat."""
    operand, factors = as_pair(x), as_pair(updates)
    one = jnp.ones_like(operand.real)
    zero = jnp.zeros_like(one)
    params = equation.params
    if params["unique_indices"] or indices.ndim == 1:
        parts = [
            lax.scatter(base, indices, part, params["dimension_numbers"], mode=params["mode"])
            for base, part in zip((one, zero), factors, strict=True)
        ]
        return times(operand, Pair(*parts))
    angles = jnp.arctan2(factors.imag, factors.real)
    angle = lax.scatter_add(zero, indices, angles, params["dimension_numbers"], mode=params["mode"])
    size = bound(equation, [one, indices, magnitude(factors)])
    return times(operand, Pair(size * jnp.cos(angle), size * jnp.sin(angle)))
