"""Schedules: functions from the number of a step, from 0, to a learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from structir.numpy.elementwise import clip, where
from structir.numpy.reals import cos

Schedule = Callable[[Any], Any]

__all__ = ["constant", "cosine", "linear", "warmup_cosine"]


def constant(rate: float) -> Schedule:
    """Returns a schedule with one rate."""
    return lambda step: rate


def linear(first: float, last: float, steps: int) -> Schedule:
    """Returns a schedule that goes linearly from `first` to `last` in a number of steps."""
    return lambda step: first + (last - first) * clip(step / steps, 0.0, 1.0)


def cosine(first: float, steps: int, last: float = 0.0) -> Schedule:
    """Returns a schedule that follows half a cosine from `first` to `last`.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """
    half = (first - last) / 2
    return lambda step: last + half * (1 + cos(clip(step / steps, 0.0, 1.0) * math.pi))


def warmup_cosine(peak: float, warmup: int, steps: int, last: float = 0.0) -> Schedule:
    """Returns a schedule that rises linearly from 0 to `peak`, then follows half a cosine."""
    rising, falling = linear(0.0, peak, warmup), cosine(peak, steps - warmup, last)
    return lambda step: where(step < warmup, rising(step), falling(step - warmup))
