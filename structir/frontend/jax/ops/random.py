"""Mappings of JAX's random number generator: keys are pairs of uint32, hashed by Threefry-2x32.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.jax.traced import traced
from structir.frontend.scalars import index_range, number, reshape_to
from structir.ir.expr import Expr
from structir.lazy import lazy_module
from structir.script import R

jax = lazy_module("jax")
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


@jax_primitive("random_wrap", "random_unwrap")
def same_data(equation: Equation) -> Expr:
    """Builds the conversions between keys and their data."""
    return equation.args[0]


def key_data(aval: Any) -> Any:
    return jax.ShapeDtypeStruct((*aval.shape, 2), "uint32")


def _over_keys(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Returns a function of one key as one of an array of keys with `count` axes."""
    for _ in range(count):
        function = jax.vmap(function)
    return function


def generator_of(equation: Equation, implementation: Any) -> Any:
    """Returns the functions of the generator of keys; Threefry is supported."""
    if implementation.tag != "fry":
        hint = 'use `jax.random.key(seed, impl="threefry2x32")`'
        equation.fail(f"keys: expected threefry2x32, found {implementation.name}", hint)
    return implementation


@jax_primitive("random_bits")
def random_bits(equation: Equation) -> list[Expr]:
    params, key = equation.params, equation.inputs[0]
    generator = generator_of(equation, key.dtype._impl)

    def bits(data: Any) -> Any:
        return generator.random_bits(data, params["bit_width"], params["shape"])

    return traced(equation, _over_keys(bits, len(key.shape)), key_data(key))


@jax_primitive("random_split")
def random_split(equation: Equation) -> list[Expr]:
    key = equation.inputs[0]
    generator = generator_of(equation, key.dtype._impl)

    def split(data: Any) -> Any:
        return generator.split(data, equation.params["shape"])

    return traced(equation, _over_keys(split, len(key.shape)), key_data(key))


@jax_primitive("random_fold_in")
def random_fold_in(equation: Equation) -> list[Expr]:
    key, message = equation.inputs
    fold = _over_keys(generator_of(equation, key.dtype._impl).fold_in, len(key.shape))
    data = jax.ShapeDtypeStruct(message.shape, message.dtype)
    return traced(equation, fold, key_data(key), data)


@jax_primitive("random_seed")
def random_seed(equation: Equation) -> list[Expr]:
    seed = equation.inputs[0]
    generator = generator_of(equation, equation.params["impl"])
    function = _over_keys(generator.seed, len(seed.shape))
    return traced(equation, function, jax.ShapeDtypeStruct(seed.shape, seed.dtype))


@jax_primitive("iota_2x32_shape")
def counters(equation: Equation) -> list[Expr]:
    """Builds the numbers of elements in two halves of 32 bits."""
    sizes = equation.out_dims()
    low = reshape_to(index_range(math.prod(sizes)), sizes)
    high = R.right_shift(low, number(32, "int64"))
    return [R.astype(half, "uint32") for half in (high, low)]


@jax_primitive("threefry2x32")
def threefry(equation: Equation) -> list[Expr]:
    """Builds the 20 rounds of Threefry-2x32 of two keys and two counters."""
    key_0, key_1, x, y = (equation.emit(arg) for arg in equation.args)
    parity = R.bitwise_xor(R.bitwise_xor(key_0, key_1), number(PARITY, "uint32"))
    keys = [key_0, key_1, equation.emit(parity)]
    x, y = equation.emit(R.add(x, keys[0])), equation.emit(R.add(y, keys[1]))
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = equation.emit(R.add(x, y))
            left = R.left_shift(y, number(rotation, "uint32"))
            right = R.right_shift(y, number(32 - rotation, "uint32"))
            y = equation.emit(R.bitwise_xor(R.bitwise_or(left, right), x))
        x = equation.emit(R.add(x, keys[(group + 1) % 3]))
        injected = R.add(keys[(group + 2) % 3], number(group + 1, "uint32"))
        y = equation.emit(R.add(y, injected))
    return [x, y]
