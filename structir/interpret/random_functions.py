"""Random number generators as external functions, deterministic for a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]


def uniform(shape: tuple[int, ...], low: float, high: float, seed: float) -> Array:
    """Samples a uniform distribution between two bounds."""
    return np.random.default_rng(int(abs(seed) * 1000)).uniform(low, high, shape)


def evenly(shape: tuple[int, ...], low: float, high: float, seed: float) -> Array:
    """Samples a uniform distribution with `RandomState`, as ONNX defines the mask of Dropout."""
    return np.random.RandomState(int(abs(seed)) % 2**32).uniform(low, high, shape)


def normal(shape: tuple[int, ...], mean: float, scale: float, seed: float) -> Array:
    """Samples a normal distribution."""
    return np.random.default_rng(int(abs(seed) * 1000)).normal(mean, scale, shape)


for _function in (uniform, evenly, normal):
    register_extern(f"draw.{_function.__name__}", _function)
