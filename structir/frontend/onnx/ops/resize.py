"""Mapping of Resize: per axis, a weighted sum of elements gathered at computed coordinates."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import attrs

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.shapes import reshape_to
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import number, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, PrimValue
from structir.script import R

WORK = "float64"  # of places and weights; products are in the operand's dtype


@attrs.frozen
class ResizedAxis:
    """One axis to be resized."""

    index: int
    size: Dim
    new: Dim
    scale: Any  # the factor as a number, or None where only the sizes tell it
    region: tuple[float, float]  # for cropping, as shares of the axis


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
    method = "linear" if node.attr("mode", "nearest") in ("linear", "bilinear") else "nearest"
    how = Interpolation(method, "asymmetric", "floor", -0.75, False, False, 0.0)
    axes = [
        ResizedAxis(k, size, scaled(size, s), s, (0.0, 1.0))
        for k, (size, s) in enumerate(zip(node.dims(), scales, strict=True))
    ]
    return _resized(node, axes, how)


@onnx_op("Resize")
def resize_by_scales(node: OnnxNode) -> Expr:
    return upsample(node)


@onnx_op("Resize", since=11)
def resize(node: OnnxNode) -> Expr:
    how = Interpolation(
        node.attr("mode"),
        node.attr("coordinate_transformation_mode"),
        node.attr("nearest_mode"),
        node.attr("cubic_coeff_a"),
        node.flag("exclude_outside"),
        node.flag("antialias"),
        node.attr("extrapolation_value"),
    )
    return _resized(node, _axes(node, how), how)


def scaled(size: Dim, scale: float) -> Dim:
    """Returns floor(size * scale)."""
    if isinstance(size, int):
        return int(size * scale)
    over, under = float(scale).as_integer_ratio()
    return dims.floordiv(size * over, under)


def _axes(node: OnnxNode, how: Interpolation) -> list[ResizedAxis]:
    rank = node.rank()
    given = node.attr("axes", None)
    places = [node.normalize_axis(a, rank) for a in (range(rank) if given is None else given)]
    own = node.dims()
    regions = [(0.0, 1.0)] * rank
    if how.coordinates == "tf_crop_and_resize":
        roi = node.constant(1).ravel().tolist()
        regions = list(zip(roi[: len(places)], roi[len(places) :], strict=True))
    by_scale = node.has(2) and node.dims(2) != (0,)
    if by_scale:
        scales = node.constant(2).ravel().tolist()
        return [
            ResizedAxis(p, own[p], scaled(own[p], s), s, r)
            for p, s, r in zip(places, scales, regions, strict=False)
        ]
    sizes = list(node.sizes(3))
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        shares = [_share(node, n, own[p]) for p, n in zip(places, sizes, strict=True)]
        chosen = min(shares) if policy == "not_larger" else max(shares)
        sizes = [int(chosen * node.static_dims()[p] + 0.5) for p in places]
        return [
            ResizedAxis(p, own[p], n, chosen, r)
            for p, n, r in zip(places, sizes, regions, strict=False)
        ]
    return [
        ResizedAxis(p, own[p], n, None, r) for p, n, r in zip(places, sizes, regions, strict=False)
    ]


def _share(node: OnnxNode, new: Dim, old: Dim) -> float:
    if not isinstance(new, int) or not isinstance(old, int):
        node.fail("keep_aspect_ratio_policy requires a static shape")
    return new / old


def _resized(node: OnnxNode, axes: list[ResizedAxis], how: Interpolation) -> Expr:
    x, dtype = node[0], node.dtype()
    for axis in axes:
        if dims.equal(axis.size, axis.new) is True and how.coordinates != "tf_crop_and_resize":
            continue
        if how.method == "nearest":
            x = node.emit(_nearest(node, x, axis, how))
        else:
            x = node.emit(_interpolated(node, x, axis, how))
    return x if node.tensor_info(x).dtype == dtype else R.astype(R.round(x), dtype)


def _nearest(node: OnnxNode, x: Expr, axis: ResizedAxis, how: Interpolation) -> Expr:
    whole = axis.scale is not None and float(axis.scale).is_integer()
    if whole and how.coordinates == "asymmetric" and how.rounding == "floor":
        return R.repeat(x, int(axis.scale), axis=axis.index)
    coordinate = folded(node, _coordinates(node, axis, how))
    half = _real(0.5)
    rounded = {
        "floor": lambda: R.floor(coordinate),
        "ceil": lambda: R.ceil(coordinate),
        "round_prefer_floor": lambda: R.ceil(R.subtract(coordinate, half)),
        "round_prefer_ceil": lambda: R.floor(R.add(coordinate, half)),
    }[how.rounding]()
    result = R.take(x, _inside(node, rounded, axis), axis=axis.index)
    return _outside(node, result, coordinate, axis, how)


def _inside(node: OnnxNode, coordinate: Expr, axis: ResizedAxis) -> Expr:
    """Returns coordinates as indices, clamped to the axis."""
    last = _float(axis.size - 1)
    return folded(node, R.astype(R.minimum(R.maximum(coordinate, _real(0.0)), last), "int64"))


def folded(node: OnnxNode, value: Expr) -> Expr:
    """Returns an expression of constants as a constant; binds any other."""
    match = node.importer.fold_constant(value)
    return match if isinstance(match, Constant) else node.emit(match)


def _float(size: Dim) -> Expr:
    return number(size, WORK) if isinstance(size, int) else size_number(size, WORK)


def _coordinates(node: OnnxNode, axis: ResizedAxis, how: Interpolation) -> Expr:
    """Returns the input coordinate of each output element."""
    transform = TRANSFORMS.get(how.coordinates)
    if transform is None:
        node.fail(f"unknown coordinate_transformation_mode {how.coordinates!r}")
    i = R.astype(R.arange(PrimValue(0), PrimValue(axis.new), PrimValue(1), dtype="int64"), WORK)
    old, new = _float(axis.size), _float(axis.new)
    if axis.scale is None:
        return transform(ResizeTerms(axis, i, old, new, R.divide(new, old), new))
    scale = _real(axis.scale)
    return transform(ResizeTerms(axis, i, old, new, scale, R.multiply(old, scale)))


@attrs.frozen
class ResizeTerms:
    """The terms of a coordinate transformation: indices of new elements, sizes and scale as
    scalars."""

    axis: ResizedAxis
    i: Expr
    old: Expr
    new: Expr
    scale: Expr
    length: Expr  # the new size before it was rounded down


HALF, ONE, ZERO = (number(value, WORK) for value in (0.5, 1.0, 0.0))


def _half_pixel(steps: ResizeTerms) -> Expr:
    return R.subtract(R.divide(R.add(steps.i, HALF), steps.scale), HALF)


def _pytorch_half_pixel(steps: ResizeTerms) -> Expr:
    return R.where(R.greater(steps.length, ONE), _half_pixel(steps), ZERO)


def _half_pixel_symmetric(steps: ResizeTerms) -> Expr:
    adjustment = R.divide(steps.new, steps.length)
    offset = R.multiply(R.multiply(steps.old, HALF), R.subtract(ONE, adjustment))
    return R.add(offset, _half_pixel(steps))


def _asymmetric(steps: ResizeTerms) -> Expr:
    return R.divide(steps.i, steps.scale)


def _align_corners(steps: ResizeTerms) -> Expr:
    last = R.subtract(steps.length, ONE)
    far = R.multiply(steps.i, R.subtract(steps.old, ONE))
    moves = R.greater(last, ZERO)
    return R.where(moves, R.divide(far, R.where(moves, last, ONE)), ZERO)


def _cropped(steps: ResizeTerms) -> Expr:
    start, end = (_real(float(r)) for r in steps.axis.region)
    last = R.subtract(steps.old, ONE)
    if isinstance(steps.axis.new, int) and steps.axis.new > 1:
        stride = R.divide(R.multiply(R.subtract(end, start), last), R.subtract(steps.new, ONE))
        return R.add(R.multiply(start, last), R.multiply(steps.i, stride))
    middle = R.multiply(R.multiply(HALF, R.add(start, end)), last)
    return R.add(middle, R.multiply(steps.i, ZERO))


TRANSFORMS: dict[str, Callable[[ResizeTerms], Expr]] = {
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _cropped,
}


def _interpolated(node: OnnxNode, x: Expr, axis: ResizedAxis, how: Interpolation) -> Expr:
    """Returns a weighted sum of the elements around each coordinate."""
    dtype = node.dtype()
    kept = dtype if dtype in ("float32", "float64") else "float32"
    x = x if node.tensor_info(x).dtype == kept else node.emit(R.astype(x, kept))
    coordinate = folded(node, _coordinates(node, axis, how))
    base, weights = _weights(node, coordinate, axis, how)
    places = [R.add(base, _real(float(k))) for k in range(len(weights))]
    start = 1 - len(weights) // 2
    places = [R.add(p, _real(float(start))) for p in places]
    if how.exclude:
        weights = _only_inside(node, places, weights, axis)
    behind = [1] * (len(node.tensor_info(x).dims) - 1 - axis.index)
    terms = []
    for at, weight in zip(places, weights, strict=True):
        factor = folded(node, R.astype(weight, kept))
        read = R.take(x, _inside(node, at, axis), axis=axis.index)
        terms.append(R.multiply(read, reshape_to(factor, (axis.new, *behind))))
    return _outside(node, reduce(R.add, terms), coordinate, axis, how)


def _weights(
    node: OnnxNode, coordinate: Expr, axis: ResizedAxis, how: Interpolation
) -> tuple[Expr, list[Expr]]:
    """Returns the element before each coordinate, and the weights of the elements around it."""
    base = folded(node, R.floor(coordinate))
    share = folded(node, R.subtract(coordinate, base))
    one = _real(1.0)
    shrink = 1.0
    if how.antialias:
        if not isinstance(axis.size, int) or not isinstance(axis.new, int):
            node.fail("antialias requires a static shape")
        shrink = min(1.0, float(axis.scale or axis.new / axis.size))
    if how.method == "linear":
        if shrink == 1.0:
            return base, [R.subtract(one, share), share]
        reach = int(1 / shrink) + 1
        distances = _distances(share, reach)
        tents = [
            R.maximum(R.subtract(one, R.multiply(d, _real(shrink))), _real(0.0)) for d in distances
        ]
        return base, _of_one(node, tents)
    reach = 2 if shrink == 1.0 else int(2 / shrink) + 1
    distances = [R.multiply(d, _real(shrink)) for d in _distances(share, reach)]
    cubic = [_cubic(node, d, how.cubic) for d in distances]
    return base, _of_one(node, cubic) if shrink < 1.0 else cubic


def _distances(share: Expr, reach: int) -> list[Expr]:
    """Returns the distances of the elements from `reach - 1` before to `reach` after it."""
    return [R.abs(R.subtract(share, _real(float(k)))) for k in range(1 - reach, reach + 1)]


def _cubic(node: OnnxNode, distance: Expr, a: float) -> Expr:
    d = folded(node, distance)

    def polynomial(*factors: float) -> Expr:
        result: Expr = _real(factors[0])
        for factor in factors[1:]:
            result = R.add(R.multiply(result, d), _real(factor))
        return result

    near = polynomial(a + 2, -(a + 3), 0.0, 1.0)
    far = polynomial(a, -5 * a, 8 * a, -4 * a)
    beyond = R.where(R.less(d, _real(2.0)), far, _real(0.0))
    return R.where(R.less_equal(d, _real(1.0)), near, beyond)


def _of_one(node: OnnxNode, weights: list[Expr]) -> list[Expr]:
    """Returns weights normalized to a sum of 1."""
    weights = [folded(node, w) for w in weights]
    total = weights[0]
    for weight in weights[1:]:
        total = R.add(total, weight)
    total = folded(node, total)
    return [R.divide(w, total) for w in weights]


def _only_inside(
    node: OnnxNode, places: list[Expr], weights: list[Expr], axis: ResizedAxis
) -> list[Expr]:
    """Returns elements beyond an edge count for nothing."""
    last = _float(axis.size - 1)
    kept = [
        R.where(R.logical_and(R.greater_equal(p, _real(0.0)), R.less_equal(p, last)), w, _real(0.0))
        for p, w in zip(places, weights, strict=True)
    ]
    return _of_one(node, kept)


def _outside(
    node: OnnxNode, made: Expr, coordinate: Expr, axis: ResizedAxis, how: Interpolation
) -> Expr:
    """Replaces elements at coordinates outside the image with the extrapolation value."""
    if how.coordinates != "tf_crop_and_resize":
        return made
    last = _float(axis.size - 1)
    inside = R.logical_and(R.greater_equal(coordinate, _real(0.0)), R.less_equal(coordinate, last))
    behind = [1] * (node.rank() - 1 - axis.index)
    dtype = node.tensor_info(made).dtype or "float32"
    return R.where(reshape_to(inside, (axis.new, *behind)), made, number(how.outside, dtype))
