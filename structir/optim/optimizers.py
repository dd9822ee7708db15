"""Optimizers: `state = optimizer.init(params)`, `params, state = optimizer.step(params, g, state)`.

A state is a tree of arrays, so a train step with an optimizer is one traced function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.numpy.creation import zeros, zeros_like
from structir.numpy.elementwise import minimum
from structir.numpy.reals import sqrt, square
from structir.numpy.reductions import sum
from structir.tracing.trees import flatten, unflatten
from structir.tracing.trees import leaves as leaves_of
from structir.tracing.trees import map as map_leaves

__all__ = ["Optimizer", "adam", "adamw", "clip_by_global_norm", "global_norm", "sgd"]

Rate = float | Callable[[Any], Any]


@attrs.frozen
class Optimizer:
    """An optimizer: `init(params)` returns a state; `step(params, gradients, state)` the new
    parameters and state."""

    init: Callable[[Any], Any]
    step: Callable[[Any, Any, Any], tuple[Any, Any]]


def _rate(rate: Rate, step: Any) -> Any:
    return rate(step) if callable(rate) else rate


def _count() -> Any:
    return zeros((), "int32")


def _mapped(function: Callable[..., tuple[Any, ...]], params: Any, *trees: Any) -> list[Any]:
    """Applies a function to the leaves of trees; returns one tree for each of its results."""
    _, structure = flatten(params)
    columns = [structure.flatten_up_to(tree) for tree in (params, *trees)]
    rows = [function(*row) for row in zip(*columns, strict=True)]
    return [unflatten(structure, values) for values in zip(*rows, strict=True)]


def sgd(rate: Rate, momentum: float = 0.0, nesterov: bool = False) -> Optimizer:
    """Returns stochastic gradient descent, with momentum if it is not 0.

    `rate` is a number or a schedule. Source: Sutskever et al., ICML 2013.
    """

    def init(params: Any) -> Any:
        velocity = map_leaves(zeros_like, params) if momentum else None
        return {"step": _count(), "velocity": velocity}

    def step(params: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        factor = _rate(rate, state["step"])
        after = state["step"] + 1
        if not momentum:
            new = map_leaves(lambda p, g: p - factor * g, params, gradients)
            return new, {"step": after, "velocity": None}

        def update(p: Any, g: Any, v: Any) -> tuple[Any, Any]:
            v = momentum * v + g
            return p - factor * (g + momentum * v if nesterov else v), v

        new, velocity = _mapped(update, params, gradients, state["velocity"])
        return new, {"step": after, "velocity": velocity}

    return Optimizer(init, step)


def adam(
    rate: Rate,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Returns Adam; `weight_decay` is decoupled from the gradient, as in AdamW.

    `rate` is a number or a schedule. Sources: Kingma and Ba, ICLR 2015; Loshchilov and Hutter,
    ICLR 2019.
    """

    def init(params: Any) -> Any:
        return {
            "step": _count(),
            "mean": map_leaves(zeros_like, params),
            "square": map_leaves(zeros_like, params),
        }

    def step(params: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        after = state["step"] + 1
        factor = _rate(rate, state["step"])
        first, second = 1 - beta1**after, 1 - beta2**after

        def update(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * square(g)
            change = (m / first) / (sqrt(v / second) + epsilon)
            if weight_decay:
                change = change + weight_decay * p
            return p - factor * change, m, v

        new, mean, squares = _mapped(update, params, gradients, state["mean"], state["square"])
        return new, {"step": after, "mean": mean, "square": squares}

    return Optimizer(init, step)


def adamw(rate: Rate, weight_decay: float = 0.01, **options: float) -> Optimizer:
    """Returns Adam with decoupled weight decay; `options` are those of `adam`."""
    return adam(rate, weight_decay=weight_decay, **options)


def global_norm(tree: Any) -> Any:
    """Returns the Euclidean norm of all elements of a tree."""
    total: Any = 0.0
    for leaf in leaves_of(tree):
        total = total + sum(square(leaf))
    return sqrt(total)


def clip_by_global_norm(gradients: Any, limit: float) -> Any:
    """Returns gradients scaled so that their norm is at most `limit`."""
    factor = minimum(1.0, limit / (global_norm(gradients) + 1e-12))
    return map_leaves(lambda g: g * factor, gradients)
