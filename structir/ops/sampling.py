"""Reading between elements: where along an axis, from which elements, by which weights; over arrays
in NumPy, and element by element for kernels."""

from __future__ import annotations

import math
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


def along(x: Array, found: Taps, exclude: bool, axis: int) -> Array:
    """An axis read at its taps; elements outside repeat the edge, or are left out."""
    length = x.shape[axis]
    shape = [1] * x.ndim
    shape[axis] = -1
    made: Array = 0.0
    total: Array = 0.0
    for position, weight in found:
        kept = weight * ((position >= 0) & (position < length)) if exclude else weight
        made = made + np.take(x, np.clip(position, 0, length - 1), axis) * kept.reshape(shape)
        total = total + kept
    return made / total.reshape(shape) if exclude else made


# The same at one place, for kernels; what a word says is told by a number.

NEAREST, LINEAR, CUBIC = range(3)
HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, PYTORCH_HALF_PIXEL, TF_HALF_PIXEL = range(5)
HALF_UP, HALF_DOWN, FLOOR, CEIL = range(4)
ROUNDINGS = {
    "": HALF_UP,
    "round": HALF_UP,
    "round_prefer_ceil": HALF_UP,
    "round_prefer_floor": HALF_DOWN,
    "floor": FLOOR,
    "ceil": CEIL,
}


def place_of(i: int, length: int, count: int, mode: int) -> float:
    """Where one of `count` results lies among `length` elements."""
    scale = length / max(count, 1)
    if mode == ALIGN_CORNERS:
        return i * ((length - 1) / (count - 1)) if count > 1 else 0.0
    if mode == ASYMMETRIC:
        return i * scale
    if mode == PYTORCH_HALF_PIXEL and count == 1:
        return 0.0
    if mode == TF_HALF_PIXEL:
        return (i + 0.5) * scale
    return (i + 0.5) * scale - 0.5


def rounded(place: float, rounding: int) -> int:
    """The element that a place is taken for."""
    if rounding == HALF_DOWN:
        return math.ceil(place - 0.5)
    if rounding == FLOOR:
        return math.floor(place)
    return math.ceil(place) if rounding == CEIL else math.floor(place + 0.5)


def tap(place: float, k: int, method: int, rounding: int) -> int:
    """The position of one of the elements that a place is read from."""
    if method == NEAREST:
        return rounded(place, rounding)
    return math.floor(place) + k - (1 if method == CUBIC else 0)


def tap_weight(place: float, k: int, method: int, alpha: float) -> float:
    """The weight of one of the elements that a place is read from."""
    if method == NEAREST:
        return 1.0
    rest = place - math.floor(place)
    if method == LINEAR:
        return rest if k else 1 - rest
    distance = abs(rest - (k - 1))
    if distance <= 1:
        return ((alpha + 2) * distance - (alpha + 3)) * (distance * distance) + 1
    far = alpha * (((distance - 5) * distance + 8) * distance - 4)
    return far if distance < 2 else 0.0


def axis_taps(
    length: int, count: int, mode: int, method: int, rounding: int, alpha: float, exclude: bool
) -> Array:
    """For each result along an axis, the positions of the elements that it is read from, inside
    the axis, and their weights."""
    if length == 0 and count > 0:
        raise IndexError("there is no element to read")
    number = 1 if method == NEAREST else 2 * method
    positions, weights = np.empty((count, number), np.int64), np.empty((count, number))
    for i in range(count):
        place, total = place_of(i, length, count, mode), 0.0
        for k in range(number):
            position = tap(place, k, method, rounding)
            weights[i, k] = tap_weight(place, k, method, alpha)
            if exclude and not 0 <= position < length:
                weights[i, k] = 0.0
            total += weights[i, k]
            positions[i, k] = min(max(position, 0), length - 1)
        if exclude:
            weights[i] /= total
    return positions, weights


def read_along(x: Array, made: Array, positions: Array, weights: Array) -> None:
    """The middle one of three axes read at its taps."""
    for a in range(made.shape[0]):
        for i in range(made.shape[1]):
            for b in range(made.shape[2]):
                value = 0.0
                for k in range(positions.shape[1]):
                    value += x[a, positions[i, k], b] * weights[i, k]
                made[a, i, b] = value
