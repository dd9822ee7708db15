"""Resampling of images on traced arrays, with the function of `jax.image`."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import is_float
from structir.numpy.contraction import einsum
from structir.numpy.elementwise import astype
from structir.numpy.indexing import take
from structir.tracing.array import TracedArray, operand
from structir.tracing.context import traced

Array = Any


def _triangle(x: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(x: Array) -> Array:
    """Keys' kernel with a = -0.5."""
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        safe = np.where(x == 0, 1.0, np.pi * x)
        value = radius * np.sin(safe) * np.sin(safe / radius) / safe**2
        return np.where(x > radius, 0.0, np.where(x == 0, 1.0, value))

    return kernel


KERNELS: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), _triangle),
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), _cubic),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}


@traced
def resize(
    image: Any, shape: Sequence[int], method: str, antialias: bool = True, precision: Any = None
) -> TracedArray:
    """Returns an image resampled to a shape with the same number of axes; integers become floats.

    `method` is nearest, linear (or bilinear, trilinear), cubic (bicubic, tricubic), lanczos3 or
    lanczos5. With `antialias`, kernels are widened where an axis gets smaller. Samples are at the
    centers of pixels, and weights are normalized over the pixels inside. The sizes of axes that
    change must be known. Source: `jax.image.resize`.
    """
    x = operand(image)
    if len(shape) != x.ndim:
        message = f"resize: shape: expected {x.ndim} sizes, found {len(shape)}"
        raise DiagnosticError(Diagnostic(message, hint="give a size for each axis", code="E1107"))
    if method != "nearest" and method not in KERNELS:
        message = f"resize: method: expected nearest or one of {', '.join(KERNELS)}, found {method}"
        raise DiagnosticError(Diagnostic(message, hint='use `method="linear"`', code="E1107"))
    sizes = [(int(n), int(m)) if n != m else None for n, m in zip(x.shape, shape, strict=True)]
    changed = [(axis, *size) for axis, size in enumerate(sizes) if size is not None]
    dtype = x.dtype_name if is_float(x.dtype_name) else "float32"
    result = astype(x, dtype)
    for axis, old, new in changed:
        if method == "nearest":
            positions = np.floor((np.arange(new) + 0.5) * old / new).astype("int32")
            result = take(result, positions, axis=axis)
            continue
        letters = string.ascii_lowercase[: x.ndim]
        weights = _weights(old, new, KERNELS[method], antialias).astype("float32")
        target = letters.replace(letters[axis], "z")
        matrix = astype(operand(weights), dtype)
        result = einsum(f"{letters},{letters[axis]}z->{target}", result, matrix)
    return result


def _weights(old: int, new: int, kernel: Callable[[Array], Array], antialias: bool) -> Array:
    """Returns the weight of each old element in each new one, of shape `(old, new)`."""
    step = old / new
    width = max(step, 1.0) if antialias else 1.0
    places = (np.arange(new) + 0.5) * step - 0.5
    weights = kernel(np.abs(places - np.arange(old)[:, None]) / width)
    total = weights.sum(axis=0, keepdims=True)
    known = np.abs(total) > 1000 * np.finfo("float32").eps
    weights = np.where(known, weights / np.where(total != 0, total, 1), 0)
    inside = (places >= -0.5) & (places <= old - 0.5)
    return np.where(inside, weights, 0)
