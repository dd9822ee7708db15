"""Mapping of Resize: per axis, a weighted sum of elements gathered at computed coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import attrs
import numpy as np

from structir.frontend.interpolation import cubic_filter
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.sizes import run_time_sizes, sizes_of
from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.scales import size_fraction
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_int
from structir.ir.expr import Constant, Expr
from structir.script import R

POLICIES = ("stretch", "not_larger", "not_smaller")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
WORK = "float64"  # dtype of coordinates and weights; products have the operand's dtype


@attrs.frozen
class ResizedAxis:
    """One axis to be resized."""

    index: int
    size: Dim
    new: Dim
    scale: Any  # the scale factor, or None if only the sizes are known
    region: tuple[float, float]  # cropped region, as fractions of the axis


@attrs.frozen
class Interpolation:
    """The interpolation of a resize: mode, coordinate transformation and their parameters."""

    method: str
    coordinates: str
    rounding: str
    cubic: float
    exclude: bool
    antialias: bool
    outside: float


def _real(value: float) -> Expr:
    return number(value, WORK)


@onnx_op("Upsample")
def upsample(node: OnnxNode) -> Expr:
    scales = node.attr("scales", None) or node.constant(1).ravel().tolist()
    scales = _checked_scales(node, list(scales), node.rank())
    mode = node.choice("mode", ("nearest", "linear", "bilinear"), "nearest")
    method = "nearest" if mode == "nearest" else "linear"
    interpolation = Interpolation(method, "asymmetric", "floor", -0.75, False, False, 0.0)
    axes = [
        ResizedAxis(k, size, scale_size(node, size, s), s, (0.0, 1.0))
        for k, (size, s) in enumerate(zip(node.dims(), scales, strict=True))
    ]
    return _resize(node, axes, interpolation)


onnx_op("Resize")(lambda node: upsample(node))


@onnx_op("Resize", since=11)
def resize(node: OnnxNode) -> Expr:
    interpolation = Interpolation(
        node.choice("mode", ("nearest", "linear", "cubic")),
        node.choice("coordinate_transformation_mode", TRANSFORMS),
        node.choice("nearest_mode", ROUNDINGS),
        node.attr("cubic_coeff_a"),
        node.flag("exclude_outside"),
        node.flag("antialias"),
        node.attr("extrapolation_value"),
    )
    return _resize(node, _axes(node, interpolation), interpolation)


def _checked_scales(node: OnnxNode, scales: list[float], count: int) -> list[float]:
    """Returns scales, one per axis; raises `DiagnosticError` if one is not positive."""
    if len(scales) != count:
        node.fail(f"scales: expected {count}, one per axis, found {len(scales)}")
    if not all(0 < scale < math.inf for scale in scales):
        node.fail(f"scales: expected positive numbers, found {scales}")
    return scales


def _checked_sizes(node: OnnxNode, sizes: list[Dim], count: int) -> list[Dim]:
    """Returns sizes, one per axis; raises `DiagnosticError` if one is negative."""
    if len(sizes) != count:
        node.fail(f"sizes: expected {count}, one per axis, found {len(sizes)}")
    if any(dims.at_least(-1, size) is True for size in sizes):
        node.fail(f"sizes: expected 0 or more, found {sizes}")
    return sizes


def scale_size(node: OnnxNode, size: Dim, scale: float) -> Dim:
    """Returns the floor of the product of a size and a scale, which is computed in float32.

    It is a quotient of integers if one is equal for all sizes, or else computed at run time.
    """
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale))
    fraction = size_fraction(float(scale), "float32")
    if fraction is not None:
        return dims.floordiv(size * fraction.numerator, fraction.denominator)
    product = R.multiply(size_number(size, "float32"), number(scale, "float32"))
    return run_time_sizes(node, node.emit(R.expand_dims(R.floor(product), [0])))[0]


def _axes(node: OnnxNode, interpolation: Interpolation) -> list[ResizedAxis]:
    rank = node.rank()
    declared = node.attr("axes", None)
    axes = [node.normalize_axis(a, rank) for a in (range(rank) if declared is None else declared)]
    dims_of_input = node.dims()
    regions = [(0.0, 1.0)] * rank
    if interpolation.coordinates == "tf_crop_and_resize":
        roi = node.constant(1).ravel().tolist()
        regions = list(zip(roi[: len(axes)], roi[len(axes) :], strict=True))
    by_scale = node.has(2) and node.dims(2) != (0,)
    if by_scale:
        scales = _checked_scales(node, node.constant(2).ravel().tolist(), len(axes))
        return [
            ResizedAxis(p, dims_of_input[p], scale_size(node, dims_of_input[p], s), s, r)
            for p, s, r in zip(axes, scales, regions, strict=False)
        ]
    policy = node.choice("keep_aspect_ratio_policy", POLICIES, "stretch")
    new_sizes = sizes_of(node, 3) if policy == "stretch" else node.sizes(3)
    sizes = _checked_sizes(node, list(new_sizes), len(axes))
    if policy != "stretch":
        ratios = [_share(node, n, dims_of_input[p]) for p, n in zip(axes, sizes, strict=True)]
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        sizes = [int(ratio * node.static_dims()[p] + 0.5) for p in axes]
        return [
            ResizedAxis(p, dims_of_input[p], n, ratio, r)
            for p, n, r in zip(axes, sizes, regions, strict=False)
        ]
    return [
        ResizedAxis(p, dims_of_input[p], n, None, r)
        for p, n, r in zip(axes, sizes, regions, strict=False)
    ]


def _share(node: OnnxNode, new_size: Dim, old_size: Dim) -> float:
    if not isinstance(new_size, int) or not isinstance(old_size, int):
        node.fail(
            f"keep_aspect_ratio_policy: expected static sizes, found {dims.text(old_size)} and "
            f"{dims.text(new_size)}",
            node.static_size_hint(),
        )
    return new_size / old_size


def _resize(node: OnnxNode, axes: list[ResizedAxis], interpolation: Interpolation) -> Expr:
    x, dtype = node[0], node.dtype()
    for axis in axes:
        if (
            dims.equal(axis.size, axis.new) is True
            and interpolation.coordinates != "tf_crop_and_resize"
        ):
            continue
        if interpolation.method == "nearest":
            x = node.emit(_nearest(node, x, axis, interpolation))
        else:
            x = node.emit(_interpolate(node, x, axis, interpolation))
    if node.tensor_info(x).dtype == dtype:
        return x
    return R.astype(R.trunc(R.astype(x, "float32")), dtype)  # as ONNX Runtime converts integers


def _nearest(node: OnnxNode, x: Expr, axis: ResizedAxis, interpolation: Interpolation) -> Expr:
    is_integer_scale = axis.scale is not None and float(axis.scale).is_integer()
    if (
        is_integer_scale
        and interpolation.coordinates == "asymmetric"
        and interpolation.rounding == "floor"
    ):
        return R.repeat(x, int(axis.scale), axis=axis.index)
    coordinate = fold_or_emit(node, _coordinates(node, axis, interpolation))
    half = _real(0.5)
    rounded = {
        "floor": lambda: R.floor(coordinate),
        "ceil": lambda: R.ceil(coordinate),
        "round_prefer_floor": lambda: R.ceil(R.subtract(coordinate, half)),
        "round_prefer_ceil": lambda: R.floor(R.add(coordinate, half)),
    }[interpolation.rounding]()
    result = R.take(x, _inside(node, rounded, axis), axis=axis.index)
    return _outside(node, result, coordinate, axis, interpolation)


def _inside(node: OnnxNode, coordinate: Expr, axis: ResizedAxis) -> Expr:
    """Returns coordinates as indices, clamped to the axis."""
    last = _float(axis.size - 1)
    return fold_or_emit(node, R.astype(R.minimum(R.maximum(coordinate, _real(0.0)), last), "int64"))


def fold_or_emit(node: OnnxNode, value: Expr) -> Expr:
    """Returns an expression of constants as a constant; binds any other."""
    match = node.importer.fold_constant(value)
    return match if isinstance(match, Constant) else node.emit(match)


def _float(size: Dim) -> Expr:
    return number(size, WORK) if isinstance(size, int) else size_number(size, WORK)


def _coordinates(node: OnnxNode, axis: ResizedAxis, interpolation: Interpolation) -> Expr:
    """Returns the input coordinate of each output element."""
    transform = TRANSFORMS[interpolation.coordinates]
    i = index_range(axis.new, WORK)
    old_size, new_size = _float(axis.size), _float(axis.new)
    is_single = interpolation.method == "nearest"
    if axis.scale is None:
        ratio = R.divide(new_size, old_size)
        ratio = R.astype(R.astype(ratio, "float32"), WORK) if is_single else ratio
        return transform(ResizeTerms(axis, i, old_size, new_size, ratio, new_size, is_single))
    scale = _real(axis.scale)
    length = R.multiply(old_size, scale)
    return transform(ResizeTerms(axis, i, old_size, new_size, scale, length, is_single))


@attrs.frozen
class ResizeTerms:
    """The terms of a coordinate transformation: indices of new elements, sizes and scale as
    scalars."""

    axis: ResizedAxis
    i: Expr
    old: Expr
    new: Expr
    scale: Expr
    length: Expr  # size * scale, before rounding down
    is_single: bool  # whether each operation is rounded to float32

    def rounded(self, value: Expr) -> Expr:
        """Returns a value rounded as ONNX Runtime rounds it, where a floor depends on it."""
        return R.astype(R.astype(value, "float32"), WORK) if self.is_single else value


HALF, ONE, ZERO = (number(value, WORK) for value in (0.5, 1.0, 0.0))


def _half_pixel(terms: ResizeTerms) -> Expr:
    centre = terms.rounded(R.divide(R.add(terms.i, HALF), terms.scale))
    return terms.rounded(R.subtract(centre, HALF))


def _pytorch_half_pixel(terms: ResizeTerms) -> Expr:
    return R.where(R.greater(terms.length, ONE), _half_pixel(terms), ZERO)


def _half_pixel_symmetric(terms: ResizeTerms) -> Expr:
    adjustment = R.divide(terms.new, terms.length)
    offset = R.multiply(R.multiply(terms.old, HALF), R.subtract(ONE, adjustment))
    return R.add(offset, _half_pixel(terms))


def _asymmetric(terms: ResizeTerms) -> Expr:
    return terms.rounded(R.divide(terms.i, terms.scale))


def _align_corners(terms: ResizeTerms) -> Expr:
    last = R.subtract(terms.length, ONE)
    scaled_index = R.multiply(terms.i, R.subtract(terms.old, ONE))
    has_extent = R.greater(last, ZERO)
    quotient = terms.rounded(R.divide(scaled_index, R.where(has_extent, last, ONE)))
    return R.where(has_extent, quotient, ZERO)


def _crop_and_resize(terms: ResizeTerms) -> Expr:
    start, end = (_real(float(r)) for r in terms.axis.region)
    last, steps = R.subtract(terms.old, ONE), R.subtract(terms.new, ONE)
    has_steps = R.greater(steps, ZERO)
    extent = R.multiply(R.subtract(end, start), last)
    stride = R.divide(extent, R.where(has_steps, steps, ONE))
    index = R.add(R.multiply(start, last), R.multiply(terms.i, stride))
    middle = R.multiply(R.multiply(HALF, R.add(start, end)), last)
    return R.where(has_steps, index, middle)


TRANSFORMS: dict[str, Callable[[ResizeTerms], Expr]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop_and_resize,
}


def _interpolate(node: OnnxNode, x: Expr, axis: ResizedAxis, interpolation: Interpolation) -> Expr:
    """Returns a weighted sum of the elements around each coordinate."""
    dtype = node.dtype()
    work_dtype = "float64" if is_int(dtype) else "float32"
    work_dtype = dtype if dtype in ("float32", "float64") else work_dtype
    x = x if node.tensor_info(x).dtype == work_dtype else node.emit(R.astype(x, work_dtype))
    coordinate = fold_or_emit(node, _coordinates(node, axis, interpolation))
    if interpolation.antialias and _shrink_factor(axis) is None:
        return _antialias(node, x, axis, coordinate, interpolation)
    base, weights = _weights(node, coordinate, axis, interpolation)
    coordinates = [R.add(base, _real(float(k))) for k in range(len(weights))]
    start = 1 - len(weights) // 2
    coordinates = [R.add(p, _real(float(start))) for p in coordinates]
    if interpolation.exclude:
        weights = _zero_outside(node, coordinates, weights, axis)
    trailing = [1] * (len(node.tensor_info(x).dims) - 1 - axis.index)
    terms = []
    for tap, weight in zip(coordinates, weights, strict=True):
        factor = fold_or_emit(node, R.astype(weight, work_dtype))
        samples = R.take(x, _inside(node, tap, axis), axis=axis.index)
        terms.append(R.multiply(samples, reshape_to(factor, (axis.new, *trailing))))
    return _outside(node, reduce(R.add, terms), coordinate, axis, interpolation)


def _weights(
    node: OnnxNode, coordinate: Expr, axis: ResizedAxis, interpolation: Interpolation
) -> tuple[Expr, list[Expr]]:
    """Returns the element before each coordinate, and the weights of the elements around it."""
    base = fold_or_emit(node, R.floor(coordinate))
    fraction = fold_or_emit(node, R.subtract(coordinate, base))
    one = _real(1.0)
    shrink = (_shrink_factor(axis) or 1.0) if interpolation.antialias else 1.0
    if interpolation.method == "linear":
        if shrink == 1.0:
            return base, [R.subtract(one, fraction), fraction]
        radius = int(1 / shrink) + 1
        distances = _distances(fraction, radius)
        tents = [
            R.maximum(R.subtract(one, R.multiply(d, _real(shrink))), _real(0.0)) for d in distances
        ]
        return base, _normalize_weights(node, tents)
    radius = 2 if shrink == 1.0 else int(2 / shrink) + 1
    distances = [R.multiply(d, _real(shrink)) for d in _distances(fraction, radius)]
    cubic = [_cubic(node, d, interpolation.cubic) for d in distances]
    return base, _normalize_weights(node, cubic) if shrink < 1.0 else cubic


def _shrink_factor(axis: ResizedAxis) -> float | None:
    """Returns the scale of an axis, or 1 if it grows; None if the sizes are symbolic."""
    if axis.scale is not None:
        return min(1.0, float(axis.scale))
    if isinstance(axis.size, int) and isinstance(axis.new, int):
        return min(1.0, axis.new / axis.size)
    return None


def _antialias(
    node: OnnxNode, x: Expr, axis: ResizedAxis, coordinate: Expr, interpolation: Interpolation
) -> Expr:
    """Returns weighted sums whose number of terms, which grows as the axis shrinks, is symbolic."""
    reach = 1 if interpolation.method == "linear" else 2
    radius = dims.dim_max(dims.floordiv(axis.size * reach, axis.new), reach) + 1
    count, dtype = 2 * radius, node.tensor_info(x).dtype
    taps = index_range(count)
    offsets = R.subtract(R.astype(taps, WORK), _float(radius - 1))
    column = reshape_to(coordinate, (axis.new, 1))
    positions = node.emit(R.add(R.floor(column), reshape_to(offsets, (1, count))))
    shrink = R.minimum(R.divide(_float(axis.new), _float(axis.size)), ONE)
    distance = R.multiply(R.abs(R.subtract(column, positions)), shrink)
    if interpolation.method == "linear":
        weights = R.maximum(R.subtract(ONE, distance), ZERO)
    else:
        weights = _cubic(node, distance, interpolation.cubic)
    if interpolation.exclude:
        last = _float(axis.size - 1)
        inside = R.logical_and(R.greater_equal(positions, ZERO), R.less_equal(positions, last))
        weights = R.where(inside, weights, ZERO)
    weights = node.emit(weights)
    weights = R.astype(R.divide(weights, R.sum(weights, axis=[1], keepdims=True)), dtype)
    trailing = [1] * (len(node.tensor_info(x).dims) - 1 - axis.index)
    samples = R.take(x, _inside(node, positions, axis), axis=axis.index)
    terms = R.multiply(samples, reshape_to(weights, (axis.new, count, *trailing)))
    return _outside(node, R.sum(terms, axis=[axis.index + 1]), coordinate, axis, interpolation)


def _distances(fraction: Expr, radius: int) -> list[Expr]:
    """Returns the distances to the elements at offsets `1 - radius` to `radius`."""
    return [R.abs(R.subtract(fraction, _real(float(k)))) for k in range(1 - radius, radius + 1)]


def _cubic(node: OnnxNode, distance: Expr, a: float) -> Expr:
    return cubic_filter(fold_or_emit(node, distance), a, _real)


def _normalize_weights(node: OnnxNode, weights: list[Expr]) -> list[Expr]:
    """Returns weights normalized to a sum of 1."""
    weights = [fold_or_emit(node, w) for w in weights]
    total = weights[0]
    for weight in weights[1:]:
        total = R.add(total, weight)
    total = fold_or_emit(node, total)
    return [R.divide(w, total) for w in weights]


def _zero_outside(
    node: OnnxNode, coordinates: list[Expr], weights: list[Expr], axis: ResizedAxis
) -> list[Expr]:
    """Returns the weights with 0 for elements outside the axis, normalized again."""
    last = _float(axis.size - 1)
    inside_weights = [
        R.where(R.logical_and(R.greater_equal(p, _real(0.0)), R.less_equal(p, last)), w, _real(0.0))
        for p, w in zip(coordinates, weights, strict=True)
    ]
    return _normalize_weights(node, inside_weights)


def _outside(
    node: OnnxNode, result: Expr, coordinate: Expr, axis: ResizedAxis, interpolation: Interpolation
) -> Expr:
    """Replaces elements at coordinates outside the image with the extrapolation value."""
    if interpolation.coordinates != "tf_crop_and_resize":
        return result
    last = _float(axis.size - 1)
    inside = R.logical_and(R.greater_equal(coordinate, _real(0.0)), R.less_equal(coordinate, last))
    trailing = [1] * (node.rank() - 1 - axis.index)
    dtype = node.tensor_info(result).dtype or "float32"
    return R.where(
        reshape_to(inside, (axis.new, *trailing)), result, number(interpolation.outside, dtype)
    )
