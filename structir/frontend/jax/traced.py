"""Builds primitives that are defined by functions of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.jax.equation import Equation
from structir.ir.expr import Expr
from structir.lazy import lazy_module

jax = lazy_module("jax")


def traced(equation: Equation, function: Callable[..., Any], *operands: Any) -> list[Expr]:
    """Builds a function of JAX on the operands of an equation, of given shapes and dtypes."""
    closed = jax.make_jaxpr(function)(*operands)
    return equation.host.inlined(closed.jaxpr, closed.consts, list(equation.args))


def operands_of(equation: Equation) -> list[Any]:
    """Returns the shapes and dtypes of the operands of an equation."""
    return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in equation.inputs]
