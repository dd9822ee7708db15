"""Fourier transforms of real arrays. A complex array is an array with a last axis of 2, of its real
and imaginary parts, as for `structir.frontend.from_jax`."""

from __future__ import annotations

import math
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.fourier import one_sided, real_inverse
from structir.numpy import creation, elementwise, shaping
from structir.tracing.array import TracedArray, emit, expression, operand
from structir.tracing.context import session, traced

NORMS = ("backward", "ortho", "forward")


def _scale(name: str, norm: str | None, size: Any, is_inverse: bool) -> Any:
    """Returns the factor of a transform. Raises DiagnosticError for an unknown norm."""
    chosen = norm or "backward"
    if chosen not in NORMS:
        message = f"{name}: norm: expected one of {', '.join(NORMS)}, found {norm!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    if chosen == "ortho":
        return 1 / math.sqrt(size) if isinstance(size, int) else elementwise.real(size) ** -0.5
    return 1 / size if (chosen == "backward") == is_inverse else 1.0


def _resized(x: TracedArray, size: Any) -> TracedArray:
    """Returns an array whose last axis is cut, or filled with zeros, to a size."""
    count = x.shape[-1]
    if size is None or size == count:
        return x
    if size < count:
        return x[..., :size]
    zeros = creation.zeros((*x.shape[:-1], size - count), x.dtype_name)
    return shaping.concatenate([x, zeros], -1)


@traced
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> TracedArray:
    """Returns the first n // 2 + 1 coefficients of the transform along an axis: an array with one
    more axis of 2, the real and imaginary parts."""
    array = elementwise.real(a)
    position = shaping.axis_of(axis, array.ndim)
    moved = _resized(shaping.moveaxis(array, position, -1), n)
    builder = session().builder
    parts = one_sided(builder.emit, builder.functions, expression(moved))
    result = shaping.stack([emit(part) for part in parts], -1)
    scaled = result * _scale("rfft", norm, moved.shape[-1], False)
    return shaping.moveaxis(scaled, -2, position)


@traced
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> TracedArray:
    """Returns the real array of n elements, by default 2 * (m - 1), whose transform has the m first
    coefficients `a`: an array with a last axis of 2. `axis` counts the other axes."""
    array = elementwise.real(a)
    if array.ndim < 2 or array.shape[-1] != 2:
        message = f"irfft: expected an array with a last axis of 2, found {array.aval}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    position = shaping.axis_of(axis, array.ndim - 1)
    moved = shaping.moveaxis(array, position, -2)
    size = 2 * (moved.shape[-2] - 1) if n is None else n
    parts = [_resized(moved[..., k], size // 2 + 1) for k in range(2)]
    values = tuple([expression(part) for part in parts])
    builder = session().builder
    result = emit(real_inverse(builder.emit, builder.functions, values, size))  # type: ignore[arg-type]
    return shaping.moveaxis(result * _scale("irfft", norm, size, True), -1, position)


@traced
def fftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> TracedArray:
    """Returns the frequencies of the coefficients of a transform of n samples at distance d."""
    places = creation.arange(n)
    places = elementwise.where(places < (n + 1) // 2, places, places - n)
    return elementwise.astype(places, dtype or float) / (elementwise.real(operand(d)) * n)


@traced
def rfftfreq(n: Any, d: Any = 1.0, *, dtype: Any = None) -> TracedArray:
    """Returns the frequencies of the coefficients of `rfft`."""
    places = elementwise.astype(creation.arange(n // 2 + 1), dtype or float)
    return places / (elementwise.real(operand(d)) * n)


def _shifted(x: Any, axes: Any, direction: int) -> TracedArray:
    array = operand(x)
    listed = shaping.axes_of(axes, array.ndim)
    shifts = [array.shape[k] // 2 for k in listed]
    if direction < 0:
        shifts = [-shift for shift in shifts]
    for axis, shift in zip(listed, shifts, strict=True):
        array = shaping.roll(array, shift, axis)
    return array


@traced
def fftshift(x: Any, axes: Any = None) -> TracedArray:
    """Returns the array with the frequency 0 in the middle of axes."""
    return _shifted(x, axes, 1)


@traced
def ifftshift(x: Any, axes: Any = None) -> TracedArray:
    """Returns the array of which `fftshift` gives this one."""
    return _shifted(x, axes, -1)
