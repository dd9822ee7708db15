"""Random number generators as external functions, deterministic for a seed.

The generator is Philox, a bijection of a counter under a key (Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", SC 2011). The key is the seed and a stream: calls of different streams
are independent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]


def _generator(seed: float, stream: float) -> np.random.Generator:
    key = np.array([np.float64(seed).view(np.uint64), int(stream)], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def uniform(
    shape: tuple[int, ...], low: float, high: float, seed: float, stream: float = 0
) -> Array:
    """Samples a uniform distribution between two bounds."""
    return _generator(seed, stream).uniform(low, high, shape)


def evenly(shape: tuple[int, ...], low: float, high: float, seed: float) -> Array:
    """Samples a uniform distribution with `RandomState`, as ONNX defines the mask of Dropout."""
    return np.random.RandomState(int(abs(seed)) % 2**32).uniform(low, high, shape)


def normal(
    shape: tuple[int, ...], mean: float, scale: float, seed: float, stream: float = 0
) -> Array:
    """Samples a normal distribution."""
    return _generator(seed, stream).normal(mean, scale, shape)


def poisson(rates: Array, seed: float, stream: float) -> Array:
    """Samples Poisson distributions of these means."""
    samples = _generator(seed, stream).poisson(rates.astype("float64"))
    return np.asarray(samples).astype(rates.dtype)


def binomial(counts: Array, chances: Array, seed: float, stream: float) -> Array:
    """Samples the numbers of successes in these numbers of trials, with these probabilities."""
    samples = _generator(seed, stream).binomial(counts.astype("int64"), chances.astype("float64"))
    return np.asarray(samples).astype(counts.dtype)


def gamma(shapes: Array, seed: float, stream: float) -> Array:
    """Samples gamma distributions of these shapes and of scale 1, all above 0."""
    samples = _generator(seed, stream).standard_gamma(shapes.astype("float64"))
    return np.asarray(np.maximum(samples, np.finfo("float64").tiny)).astype(shapes.dtype)


for _function in (uniform, evenly, normal, poisson, binomial, gamma):
    register_extern(f"draw.{_function.__name__}", _function)
