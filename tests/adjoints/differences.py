"""Gradients by differences, for tests of those by rules."""

from collections.abc import Callable
from typing import Any

import numpy as np

import structir
from structir.ir import IRModule


def leaves(value: Any) -> list[Any]:
    """The arrays of integers or floats in a value, in order."""
    if isinstance(value, tuple):
        return [leaf for field in value for leaf in leaves(field)]
    real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return [value] if real else []


def moved(value: Any, ways: list[Any], step: float) -> Any:
    """A value some way along directions, which are used up."""
    if isinstance(value, tuple):
        return tuple(moved(field, ways, step) for field in value)
    real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value + step * ways.pop(0) if real else value


def slope(function: Callable[..., Any], arguments: tuple[Any, ...], ways: list[Any]) -> float:
    """How a number changes along directions, by central differences of fourth order."""

    def at(step: float) -> float:
        return float(function(*moved(arguments, list(ways), step)))

    h = 1e-4
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def assert_gradient(
    module: IRModule, made: IRModule, arguments: tuple[Any, ...], seed: int = 0
) -> None:
    """`main_adjoint` of `made` gives the value of `main`, and the slopes of its differences in some
    directions; compiled it gives the same. Every parameter of real numbers is differentiated."""
    value, gradients = structir.interpret(made, "main_adjoint", *arguments)

    def original(*values: Any) -> Any:
        return structir.interpret(module, "main", *values)

    np.testing.assert_array_equal(value, original(*arguments))
    rng = np.random.default_rng(seed)
    own = leaves(gradients)
    assert [g.shape for g in own] == [a.shape for a in leaves(arguments)]
    for _ in range(3):
        ways = [rng.standard_normal(leaf.shape) for leaf in leaves(arguments)]
        told = sum(float((g * way).sum()) for g, way in zip(own, ways, strict=True))
        np.testing.assert_allclose(told, slope(original, arguments, ways), rtol=1e-6, atol=1e-7)
    compiled = leaves(structir.compile(made)["main_adjoint"](*arguments))
    for here, there in zip(compiled, leaves((value, gradients)), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-11)
