"""Functions of distributions that follow from others."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from structir.numpy import elementwise, reals
from structir.tracing.array import TracedArray
from structir.tracing.context import traced

Function = Callable[..., TracedArray]
MEANINGS = {
    "logpdf": "Returns the logarithm of the density.",
    "pdf": "Returns the density.",
    "pmf": "Returns the probability.",
    "cdf": "Returns the distribution function.",
    "logcdf": "Returns the logarithm of the distribution function.",
    "sf": "Returns 1 less the distribution function.",
    "logsf": "Returns the logarithm of 1 less the distribution function.",
    "ppf": "Returns the inverse of the distribution function.",
    "isf": "Returns the inverse of `sf`.",
}


def located(name: str, core: Function, *shapes: str) -> Function:
    """Returns a function of a distribution with a location and a scale.

    `core` receives z = (x - loc) / scale, the parameters of the shape, and the scale.
    """

    def body(x: TracedArray, *parameters: TracedArray) -> TracedArray:
        *shape, middle, width = parameters
        return core((x - middle) / width, *shape, width)

    return _declared(name, ("x", *shapes), body, core)


def quantile(name: str, core: Function, *shapes: str) -> Function:
    """Returns loc + scale * core(q, shape...), an inverse function of a distribution."""

    def body(q: TracedArray, *parameters: TracedArray) -> TracedArray:
        *shape, middle, width = parameters
        return middle + width * core(q, *shape)

    return _declared(name, ("q", *shapes), body, core)


def _declared(name: str, required: tuple[str, ...], body: Function, core: Function) -> Function:
    """Returns a function of the required parameters, `loc` and `scale`, as floats of one dtype; it
    belongs to the module of `core`."""
    defaults = dict.fromkeys(required, inspect.Parameter.empty) | {"loc": 0.0, "scale": 1.0}
    signature = inspect.Signature(
        [
            inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for each, default in defaults.items()
        ]
    )

    def declared(*args: Any, **keywords: Any) -> TracedArray:
        arguments = signature.bind(*args, **keywords)
        arguments.apply_defaults()
        return body(*elementwise.real_operands(*arguments.arguments.values())[0])

    declared.__signature__ = signature  # type: ignore[attr-defined]
    declared.__module__ = core.__module__
    return traced(elementwise.described(declared, name, MEANINGS[name]))


def exponential(name: str, logarithm: Function) -> Function:
    """Returns the function of a distribution whose logarithm is given."""
    return _composed(name, reals.exp, logarithm)


def logarithm(name: str, function: Function) -> Function:
    """Returns the logarithm of a function of a distribution."""
    return _composed(name, reals.log, function)


def _composed(name: str, outer: Function, inner: Function) -> Function:
    @functools.wraps(inner)
    def composed(*args: Any, **keywords: Any) -> TracedArray:
        return outer(inner(*args, **keywords))

    return traced(elementwise.described(composed, name, MEANINGS[name]))


def mirrored(name: str, function: Function) -> Function:
    """Returns a function of a symmetric distribution at -x, for -loc."""

    @functools.wraps(function)
    def reflected(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> TracedArray:
        (points, middle, width), _ = elementwise.real_operands(x, loc, scale)
        return function(-points, -middle, width)

    return traced(elementwise.described(reflected, name, MEANINGS[name]))


def outside(is_outside: Any, value: Any, otherwise: Any = -math.inf) -> TracedArray:
    """Returns a value, and another one outside of the support."""
    return elementwise.where(is_outside, otherwise, value)


def clipped(x: TracedArray, low: Any, high: Any = math.inf) -> TracedArray:
    """Returns x limited to [low, high], with no gradient outside, even an infinite one."""
    return elementwise.where(x < low, low, elementwise.where(x > high, high, x))


def of_shares(q: TracedArray, value: Any) -> TracedArray:
    """Returns a quantile, and NaN where q is not in [0, 1]."""
    return elementwise.where(elementwise.isnan(q) | (q < 0) | (q > 1), math.nan, value)
