"""Computes taps and weights of interpolation, with NumPy and as scalar functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from structir.lazy import lazy_module

np = lazy_module("numpy")
Array = Any
Taps = list[tuple[Array, Array]]  # indices and weights

ROUNDING = {
    "round": lambda p: np.floor(p + 0.5),
    "": lambda p: np.floor(p + 0.5),
    "round_prefer_floor": lambda p: np.ceil(p - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    "floor": lambda p: np.floor(p),
    "ceil": lambda p: np.ceil(p),
}


def places(length: int, count: int, mode: str) -> Array:
    """Returns the source coordinate of each of `count` results on an axis of `length` elements."""
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


def taps(coordinate: Array, method: str, rounding: str = "round", alpha: float = -0.75) -> Taps:
    """Returns the indices and the weights of the elements read at each coordinate."""
    if method in ("nearest", "nearest_neighbor"):
        return [(ROUNDING[rounding](coordinate).astype("int64"), np.ones_like(coordinate))]
    low = np.floor(coordinate)
    fraction, low = coordinate - low, low.astype("int64")
    if method in ("linear", "bilinear"):
        return [(low, 1 - fraction), (low + 1, fraction)]
    return [(low + k, _cubic(np.abs(fraction - k), alpha)) for k in (-1, 0, 1, 2)]


def _cubic(distance: Array, alpha: float) -> Array:
    near = ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1
    far = alpha * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def in_range(element_taps: Taps, length: int) -> Taps:
    """Returns the taps with weights normalized over those in range; others have no weight."""
    inside = [(position >= 0) & (position < length) for position, _ in element_taps]
    total: Array = 0.0
    for (_, weight), is_inside in zip(element_taps, inside, strict=True):
        total = total + weight * is_inside
    return [
        (position, np.where(is_inside, weight / total, 0.0))
        for (position, weight), is_inside in zip(element_taps, inside, strict=True)
    ]


def resampled(x: Array, axes: Sequence[int], element_taps: Sequence[Taps]) -> Array:
    """Interpolates along axes, in the order of operations of a kernel that sums over all taps.

    Taps out of range read the edge element.
    """
    total: Array = 0.0
    for chosen in itertools.product(*element_taps):
        term = x
        for axis, (position, _) in zip(axes, chosen, strict=True):
            term = term.take(np.clip(position, 0, x.shape[axis] - 1), axis)
        for axis, (_, weight) in zip(axes, chosen, strict=True):
            term = term * weight.reshape(-1, *[1] * (x.ndim - axis - 1))
        total = total + term
    return total


# Scalar versions for kernels. `method` is 0 (nearest), 1 (linear) or 2 (cubic); `mode` is an index
# in MODES, `rounding` an index in ROUNDINGS.

MODES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn")
ROUNDINGS = ("round", "", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def place_of(i: int, length: int, count: int, mode: int) -> float:
    """Returns the source coordinate of one of `count` results."""
    scale = length / max(count, 1)
    if mode == 1:
        return i * ((length - 1) / (count - 1)) if count > 1 else 0.0
    if mode == 2:
        return i * scale
    if mode == 3 and count == 1:
        return 0.0
    if mode == 4:
        return (i + 0.5) * scale
    return (i + 0.5) * scale - 0.5


def tap_of(k: int, coordinate: float, method: int, rounding: int) -> int:
    """Returns the index of one tap of a coordinate."""
    if method > 0:
        return math.floor(coordinate) + (k if method == 1 else k - 1)
    if rounding == 4:
        return math.floor(coordinate)
    if rounding == 5:
        return -math.floor(-coordinate)
    return -math.floor(0.5 - coordinate) if rounding == 2 else math.floor(coordinate + 0.5)


def weight_of(k: int, coordinate: float, method: int, alpha: float) -> float:
    """Returns the weight of one tap."""
    fraction = coordinate - math.floor(coordinate)
    if method == 0:
        return 1.0
    if method == 1:
        return 1.0 - fraction if k == 0 else fraction
    distance = abs(fraction - (k - 1))
    if distance <= 1.0:
        return ((alpha + 2.0) * distance - (alpha + 3.0)) * distance * distance + 1.0
    if distance < 2.0:
        return alpha * (((distance - 5.0) * distance + 8.0) * distance - 4.0)
    return 0.0


def share_of(
    k: int, coordinate: float, method: int, rounding: int, alpha: float, length: int, exclude: bool
) -> float:
    """Returns the weight of a tap; with `exclude`, normalized over the taps in range."""
    weight = weight_of(k, coordinate, method, alpha)
    if not exclude:
        return weight
    total, index = 0.0, tap_of(k, coordinate, method, rounding)
    for tap in range(taps_of(method)):
        element = tap_of(tap, coordinate, method, rounding)
        if 0 <= element < length:
            total += weight_of(tap, coordinate, method, alpha)
    return weight / total if 0 <= index < length else 0.0


def taps_of(method: int) -> int:
    """Returns the number of taps per coordinate."""
    return 1 if method == 0 else 2 * method


def nearest(value: float) -> float:
    """Rounds to the nearest integer, with ties to even."""
    below = math.floor(value)
    fraction = value - below
    return below + 1.0 if fraction > 0.5 or (fraction == 0.5 and below % 2 == 1) else below


def clipped(position: int, length: int) -> int:
    """Returns an index clamped to the range of an axis."""
    return min(max(position, 0), length - 1)
