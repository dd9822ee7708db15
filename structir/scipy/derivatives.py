"""Derivatives of elementwise functions that loops compute: declared, or by forward mode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from structir.numpy import elementwise, shaping
from structir.numpy.creation import ones_like
from structir.tracing.array import TracedArray, cast
from structir.tracing.context import traced
from structir.transforms.custom import custom_jvp
from structir.transforms.gradients import jvp

Function = Callable[..., TracedArray]


def differentiable(*derivatives: Function | None) -> Callable[[Function], Function]:
    """Declares the derivatives of an elementwise function by each argument.

    A derivative is a function of the arguments; None is that of forward mode, for loops that end by
    a condition. The arguments, broadcast to one shape, are float64 in the function and in its
    derivatives; the result has their common dtype.
    """

    def decorate(function: Function) -> Function:
        smooth = custom_jvp(function)

        def rule(primals: Any, tangents: Any) -> Any:
            total: Any = 0.0
            for k, tangent in enumerate(tangents):
                derivative = derivatives[k] or functools.partial(_forward, function, k)
                total = total + derivative(*primals) * tangent
            return smooth(*primals), total

        smooth.defjvp(rule)

        @functools.wraps(function)
        def call(*values: Any) -> TracedArray:
            operands, _ = elementwise.real_operands(*values)
            wide = shaping.broadcast_arrays(*[cast(x, "float64") for x in operands])
            return cast(smooth(*wide), operands[0].dtype_name)

        return traced(call)

    return decorate


def _forward(function: Function, index: int, *primals: TracedArray) -> TracedArray:
    """Returns the derivative by one argument, along a tangent of ones."""

    def of_one(x: TracedArray) -> TracedArray:
        return function(*primals[:index], x, *primals[index + 1 :])

    return jvp(of_one, (primals[index],), (ones_like(primals[index]),))[1]
