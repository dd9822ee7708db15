"""Polynomials with the highest coefficient first, and windows of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.struct_info import MAX_RANK
from structir.numpy.contraction import convolve
from structir.numpy.creation import arange, asarray, linspace
from structir.numpy.elementwise import divide, logical_and, real, where
from structir.numpy.reals import exp, log
from structir.numpy.shaping import axis_of, concatenate, expand_dims
from structir.tracing.array import TracedArray, equally_long, of_rank, operand
from structir.tracing.context import traced


def _aligned(a1: Any, a2: Any) -> tuple[TracedArray, TracedArray]:
    """Returns coefficients of one length, with zeros in front of the shorter."""
    first, second = [of_rank(a, "polynomial", 1, MAX_RANK) for a in (a1, a2)]
    count = max(int(first.shape[0]), int(second.shape[0]))
    return _extended(first, count), _extended(second, count)


def _extended(p: TracedArray, count: int) -> TracedArray:
    missing = count - int(p.shape[0])
    return concatenate([operand(np.zeros(missing, p.dtype_name)), p]) if missing else p


@traced
def polyadd(a1: Any, a2: Any) -> TracedArray:
    """Returns the sum of polynomials."""
    first, second = _aligned(a1, a2)
    return first + second


@traced
def polysub(a1: Any, a2: Any) -> TracedArray:
    """Returns the difference of polynomials."""
    first, second = _aligned(a1, a2)
    return first - second


@traced
def polymul(a1: Any, a2: Any) -> TracedArray:
    """Returns the product of polynomials."""
    return convolve(a1, a2)


@traced
def polyder(p: Any, m: int = 1) -> TracedArray:
    """Returns a derivative of a polynomial."""
    array = of_rank(p, "polyder: p", 1)
    for _ in range(m):
        count = int(array.shape[0])
        array = array[:-1] * arange(count - 1, 0, -1)
    return array


@traced
def polyint(p: Any, m: int = 1, k: Any = None) -> TracedArray:
    """Returns an antiderivative of a polynomial with the constant `k`, 0 by default."""
    array = of_rank(p, "polyint: p", 1)
    for _ in range(m):
        count = int(array.shape[0])
        terms = divide(array, arange(count, 0, -1))
        array = concatenate([terms, asarray(k or 0, terms.dtype_name).reshape(1)])
    return array


def _window(name: str, text: str) -> Any:
    def window(M: int) -> TracedArray:
        return operand(getattr(np, name)(int(M)).astype("float32"))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"Returns the {text} window with M samples, as float32."
    return traced(window)


hamming = _window("hamming", "Hamming")
hanning = _window("hanning", "Hann")
blackman = _window("blackman", "Blackman")
bartlett = _window("bartlett", "triangular")


@traced
def kaiser(M: int, beta: float) -> TracedArray:
    """Returns the Kaiser window with M samples, as float32."""
    return operand(np.kaiser(int(M), float(beta)).astype("float32"))


@traced
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> TracedArray:
    """Returns numbers whose quotients are equal, from `start` to `stop`."""
    first, last = real(start), real(stop)
    sign = where(logical_and(first < 0, last < 0), -1.0, 1.0)
    values = exp(linspace(log(first * sign), log(last * sign), num, endpoint, axis=axis))
    values = values * (expand_dims(sign, axis) if sign.ndim else sign)
    return values if dtype is None else values.astype(dtype)


@traced
def gradient(f: Any, *varargs: Any, axis: Any = None) -> Any:
    """Returns central differences inside and one-sided ones at the ends, for each axis.

    `varargs` is the distance of samples or their coordinates, which are a vector: one for all
    axes, or one for each axis.
    """
    array = real(f)
    axes = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    chosen = [axis_of(a, array.ndim) for a in axes]
    spacing = list(varargs) if len(varargs) == len(chosen) else [*(varargs or (1,))] * len(chosen)
    results = [_differences(array, a, h) for a, h in equally_long("gradient", chosen, spacing)]
    return results[0] if len(results) == 1 else results


def _differences(array: TracedArray, axis: int, spacing: Any) -> TracedArray:
    def part(start: int | None, stop: int | None) -> TracedArray:
        index = [slice(None)] * array.ndim
        index[axis] = slice(start, stop)
        return array[tuple(index)]

    if array.shape[axis] == 1:
        message = f"gradient: expected at least 2 elements on axis {axis}, found 1"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    first, last = part(1, 2) - part(0, 1), part(-1, None) - part(-2, -1)
    distance = of_rank(real(spacing), "gradient: distance or coordinates", 0, 1)
    if distance.ndim == 0:
        inside = (part(2, None) - part(None, -2)) / 2.0
        return concatenate([first, inside, last], axis=axis) / distance
    # The derivative of the parabola through three points.
    widths = (distance[1:] - distance[:-1]).reshape((-1, *[1] * (array.ndim - 1 - axis)))
    left, right = widths[:-1], widths[1:]
    weight = right / (left + right)
    slopes = (part(1, None) - part(None, -1)) / widths
    before = [slice(None)] * axis
    inside = slopes[(*before, slice(None, -1))] * weight
    inside = inside + slopes[(*before, slice(1, None))] * (1 - weight)
    return concatenate([first / widths[:1], inside, last / widths[-1:]], axis=axis)
