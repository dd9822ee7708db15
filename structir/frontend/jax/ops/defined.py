"""Mappings of primitives that are defined by functions of JAX."""

from __future__ import annotations

from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.jax.traced import operands_of, traced
from structir.ir.expr import Expr
from structir.lazy import lazy_module

lax = lazy_module("jax.lax")
jnp = lazy_module("jax.numpy")
np = lazy_module("numpy")


@jax_primitive("clz")
def leading_zeros(equation: Equation) -> list[Expr]:
    """Builds the number of zero bits above the highest one."""

    def count(x: Any) -> Any:
        bits = np.dtype(equation.dtype()).itemsize * 8
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < bits:
                x = lax.bitwise_or(x, lax.shift_right_logical(x, lax.full_like(x, shift)))
        return lax.population_count(lax.bitwise_not(x))

    return traced(equation, count, *operands_of(equation))


@jax_primitive("polygamma")
def derivatives_of_digamma(equation: Equation) -> list[Expr]:
    """Builds polygamma by the zeta function of Hurwitz."""

    def polygamma(order: Any, x: Any) -> Any:
        order, x = jnp.broadcast_arrays(order, x)
        sign = jnp.where(order % 2 == 0, -1, 1).astype(x.dtype)
        value = sign * jnp.exp(lax.lgamma(order + 1)) * lax.zeta(order + 1, x)
        return jnp.where(order == 0, lax.digamma(x), value)

    return traced(equation, polygamma, *operands_of(equation))


@jax_primitive("lu_pivots_to_permutation")
def permutation(equation: Equation) -> list[Expr]:
    """Builds the permutation that row exchanges have, one after the other."""
    size = equation.params["permutation_size"]

    def permuted(pivots: Any) -> Any:
        *batch, count = pivots.shape
        rows = jnp.broadcast_to(jnp.arange(size, dtype="int32"), (*batch, size))
        places = jnp.arange(size, dtype="int32")

        def exchanged(k: Any, order: Any) -> Any:
            other = lax.dynamic_index_in_dim(pivots, k, axis=-1)
            first = lax.dynamic_index_in_dim(order, k, axis=-1)
            second = jnp.take_along_axis(order, other, axis=-1)
            order = jnp.where(places == k, second, order)
            return jnp.where((places == other) & (places != k), first, order)

        return lax.fori_loop(0, count, exchanged, rows)

    return traced(equation, permuted, *operands_of(equation))


@jax_primitive("householder_product")
def product_of_reflections(equation: Equation) -> list[Expr]:
    """Builds I - V T V^T with T = (I + D U)^-1 D, where V has the vectors, D the scales, and U is
    the part of V^T V above its diagonal."""

    def product(matrix: Any, scales: Any) -> Any:
        rows, columns = matrix.shape[-2:]
        count = scales.shape[-1]
        unit = jnp.eye(rows, columns, dtype=matrix.dtype)
        vectors = (jnp.tril(matrix, -1) + unit)[..., :count]
        across = jnp.swapaxes(vectors, -1, -2)
        column = scales[..., None]
        system = column * jnp.triu(across @ vectors, 1) + jnp.eye(count, dtype=matrix.dtype)
        right = column * across[..., :columns]
        core = lax.linalg.triangular_solve(system, right, left_side=True)
        return unit - vectors @ core

    return traced(equation, product, *operands_of(equation))


@jax_primitive("tridiagonal_solve")
def tridiagonal_solution(equation: Equation) -> list[Expr]:
    """Builds the solution of tridiagonal systems by elimination and substitution."""

    def solve(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
        lower, diagonal, upper = (jnp.moveaxis(x, -1, 0) for x in (lower, diagonal, upper))
        right = jnp.moveaxis(right, -2, 0)

        def forward(state: Any, row: Any) -> Any:
            ratio, value = state
            a, b, c, d = row
            pivot = b - a * ratio
            state = c / pivot, (d - a[..., None] * value) / pivot[..., None]
            return state, state

        zeros = jnp.zeros_like(diagonal[0]), jnp.zeros_like(right[0])
        _, rows = lax.scan(forward, zeros, (lower, diagonal, upper, right))

        def backward(following: Any, row: Any) -> Any:
            ratio, value = row
            x = value - ratio[..., None] * following
            return x, x

        _, solution = lax.scan(backward, zeros[1], rows, reverse=True)
        return jnp.moveaxis(solution, 0, -2)

    return traced(equation, solve, *operands_of(equation))
