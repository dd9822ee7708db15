"""Reading between elements: taps and weights along an axis, and resizing by them, in NumPy."""

from __future__ import annotations

from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")
Array = Any
Taps = list[tuple[Array, Array]]  # positions and weights

ROUNDING = {
    "round": lambda p: np.floor(p + 0.5),
    "": lambda p: np.floor(p + 0.5),
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": lambda p: np.floor(p),
    "ceil": lambda p: np.ceil(p),
}


def places(length: int, count: int, mode: str) -> Array:
    """Where each of `count` results lies among `length` elements."""
    i = np.arange(count, dtype="float64")
    scale = length / max(count, 1)
    if mode == "align_corners":
        return i * ((length - 1) / (count - 1) if count > 1 else 0.0)
    if mode == "asymmetric":
        return i * scale
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(1)
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) * scale
    return (i + 0.5) * scale - 0.5


def taps(place: Array, method: str, rounding: str = "round", alpha: float = -0.75) -> Taps:
    """Which elements a place is read from, and by which weights."""
    if method in ("nearest", "nearest_neighbor"):
        return [(ROUNDING[rounding](place).astype("int64"), np.ones_like(place))]
    low = np.floor(place)
    rest, low = place - low, low.astype("int64")
    if method in ("linear", "bilinear"):
        return [(low, 1 - rest), (low + 1, rest)]
    return [(low + k, _cubic(np.abs(rest - k), alpha)) for k in (-1, 0, 1, 2)]


def _cubic(distance: Array, alpha: float) -> Array:
    near = ((alpha + 2) * distance - (alpha + 3)) * distance**2 + 1
    far = alpha * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def weights(length: int, found: Taps, exclude: bool = False) -> Array:
    """The taps as a matrix, a row for each result; elements outside repeat the edge, or are left
    out."""
    made = np.zeros((len(found[0][0]), length))
    rows = np.arange(len(made))
    for position, weight in found:
        inside = (position >= 0) & (position < length)
        kept = weight * inside if exclude else weight
        np.add.at(made, (rows, np.clip(position, 0, length - 1)), kept)
    return made / made.sum(axis=1, keepdims=True) if exclude else made


def along(x: Array, matrix: Array, axis: int) -> Array:
    """A matrix applied along one axis."""
    return np.moveaxis(np.tensordot(x, matrix, axes=([axis], [1])), -1, axis)
