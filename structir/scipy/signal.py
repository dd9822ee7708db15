"""Convolutions and correlations of signals and images, and the removal of trends."""

from __future__ import annotations

from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.lax.windows import conv_general_dilated
from structir.numpy import creation, elementwise, linalg, reductions, shaping
from structir.tracing.array import TracedArray, cast, promoted
from structir.tracing.context import traced

MODES = ("full", "same", "valid")


def _convolved(name: str, in1: Any, in2: Any, mode: str) -> TracedArray:
    """Returns the sums of products of one array and the other one, at all offsets.

    Raises DiagnosticError for an unknown mode, and for arrays of different ranks or of rank 0 or
    above 3.
    """
    (first, second), _ = promoted(in1, in2)
    if mode not in MODES:
        message = f"{name}: mode: expected one of {', '.join(MODES)}, found {mode!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    if first.ndim != second.ndim or not 1 <= first.ndim <= 3:
        ranks = f"found ranks {first.ndim} and {second.ndim}"
        message = f"{name}: expected arrays of one rank from 1 to 3, {ranks}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    dtype = first.dtype_name
    first, second = elementwise.real(first), elementwise.real(second)
    sizes = second.shape
    is_exchanged = mode == "valid" and all([a < b for a, b in zip(first.shape, sizes, strict=True)])
    if is_exchanged:
        first, second, sizes = second, first, first.shape
    kernel = shaping.flip(second)
    widths = [(size - 1, size - 1) for size in sizes]
    if mode == "valid":
        widths = [(0, 0)] * first.ndim
    if mode == "same":
        widths = [(size // 2, (size - 1) // 2) for size in sizes]
    product = conv_general_dilated(first[None, None], kernel[None, None], [1] * first.ndim, widths)[
        0, 0
    ]
    return cast(product, dtype) if dtype.startswith("float") else product


@traced
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> TracedArray:
    """Returns the convolution of arrays of 1 to 3 axes: of all offsets, of as many as elements of
    the first ("same"), or of those where both overlap wholly ("valid"). `method` is a hint."""
    return _convolved("convolve", in1, in2, mode)


@traced
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> TracedArray:
    """Returns the convolution of arrays of 1 to 3 axes; it is computed by products."""
    return _convolved("fftconvolve", in1, in2, mode)


@traced
def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> TracedArray:
    """Returns the convolution of matrices, with zeros around them."""
    return _convolved("convolve2d", in1, in2, mode)


@traced
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> TracedArray:
    """Returns the correlation of arrays of 1 to 3 axes: the convolution with the reversed one."""
    return _convolved("correlate", in1, shaping.flip(in2), mode)


@traced
def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> TracedArray:
    """Returns the correlation of matrices, with zeros around them."""
    if mode == "same":  # of even sizes, the middle is that of the reversed matrices
        return shaping.flip(_convolved("correlate2d", shaping.flip(in1), in2, mode))
    return _convolved("correlate2d", in1, shaping.flip(in2), mode)


@traced
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: int = 0) -> TracedArray:
    """Returns an array less its mean along an axis ("constant"), or less its line of least squares.

    Raises DiagnosticError for another type, and for break points `bp`.
    """
    if type not in ("linear", "constant") or bp:
        message = f"detrend: expected linear or constant without bp, found {type!r} and {bp}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    array = elementwise.real(data)
    if type == "constant":
        return array - reductions.mean(array, axis, keepdims=True)
    position = shaping.axis_of(axis, array.ndim)
    moved = shaping.moveaxis(array, position, 0)
    count = moved.shape[0]
    places = cast(creation.arange(1, count + 1), array.dtype_name) / count
    columns = shaping.stack([places, creation.ones_like(places)], 1)
    flat = shaping.reshape(moved, (count, -1))
    line = columns @ linalg.lstsq(columns, flat)[0]
    return shaping.moveaxis(shaping.reshape(flat - line, moved.shape), 0, position)
