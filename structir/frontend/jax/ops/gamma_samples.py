"""Mapping of samples of gamma distributions, from which beta, Dirichlet and Student's t follow.

Source: Marsaglia and Tsang, "A simple method for generating gamma variables", TOMS 2000.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.ops.random import generator_of, key_data
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.jax.traced import traced
from structir.ir.expr import Expr
from structir.lazy import lazy_module

jax = lazy_module("jax")
jnp = lazy_module("jax.numpy")
lax = lazy_module("jax.lax")
np = lazy_module("numpy")
SQUEEZE = 0.0331


@jax_primitive("random_gamma")
def gamma_samples(equation: Equation) -> list[Expr]:
    """Builds samples, each from a key of its own, by rejection until all are accepted."""
    key, shape = equation.inputs
    implementation = generator_of(equation, key.dtype._impl)
    one = partial(_sample, is_logarithm=equation.params["log_space"])

    def samples(data: Any, a: Any) -> Any:
        count: Any = 1
        for size in a.shape[len(key.shape) :]:
            count = size * count
        keys = jax.random.wrap_key_data(data, impl=implementation.name).reshape(-1)
        split = jax.vmap(partial(jax.random.split, num=count))(keys)
        return jax.vmap(one)(split.reshape(-1), a.reshape(-1)).reshape(a.shape)

    parameters = jax.ShapeDtypeStruct(shape.shape, shape.dtype)
    return traced(equation, samples, key_data(key), parameters)


def _sample(key: Any, a: Any, is_logarithm: bool) -> Any:
    """Returns a sample, or its logarithm; one for a < 1 is that for a + 1, scaled."""
    dtype = a.dtype.type
    one, third = dtype(1), dtype(1 / 3)
    is_large = a >= 1
    d = lax.select(is_large, a, a + one) - third
    c = third / lax.sqrt(d)

    def is_rejected(state: Any) -> Any:
        _, squared, cube, uniform = state
        bound = squared * dtype(0.5) + d * ((one - cube) + lax.log(cube))
        is_outside = uniform >= one - dtype(SQUEEZE) * (squared * squared)
        return is_outside & (lax.log(uniform) >= bound)

    def attempt(state: Any) -> Any:
        key, first, second = jax.random.split(state[0], 3)
        x, v = _positive_cube_root(first, c)
        return key, x * x, v * v * v, jax.random.uniform(second, (), a.dtype)

    key, last = jax.random.split(key)
    start = key, dtype(0), one, dtype(2)
    _, _, cube, _ = lax.while_loop(is_rejected, attempt, start)
    if is_logarithm:
        drawn = -jax.random.exponential(last, (), a.dtype)
        scale = lax.select(is_large | (drawn == 0), dtype(0), drawn * (one / a))
        return (lax.log(d) + lax.log(cube)) + scale
    drawn = one - jax.random.uniform(last, (), a.dtype)
    return d * cube * lax.select(is_large, one, lax.pow(drawn, one / a))


def _positive_cube_root(key: Any, c: Any) -> tuple[Any, Any]:
    """Returns a normal sample x for which v = 1 + c x is positive, and v."""

    def attempt(state: Any) -> Any:
        key, first = jax.random.split(state[0])
        x = jax.random.normal(first, (), c.dtype)
        return key, x, 1 + x * c

    start = key, c.dtype.type(0), c.dtype.type(-1)
    _, x, v = lax.while_loop(lambda state: state[2] <= 0, attempt, start)
    return x, v
