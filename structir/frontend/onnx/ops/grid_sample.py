"""Mappings of GridSample, AffineGrid, RoiAlign and NonMaxSuppression."""

from __future__ import annotations

from functools import reduce
from itertools import product as combinations
from math import prod
from typing import Any

from structir.frontend.nms import suppressed
from structir.frontend.onnx.joins import cast_checked
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.shapes import reshape_to
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.roi_align import roi_maximum_kernel
from structir.frontend.onnx.scalars import constant, number, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, ShapeExpr, Tuple
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

PADDINGS = ("zeros", "border", "reflection")
METHODS = {
    "linear": "linear",
    "bilinear": "linear",
    "nearest": "nearest",
    "cubic": "cubic",
    "bicubic": "cubic",
}


@onnx_op("AffineGrid")
def affine_grid(node: OnnxNode) -> Expr:
    batch, _, *spatial = node.sizes(1)
    dtype, count = node.dtype(), len(spatial)
    align_corners = node.flag("align_corners")
    axes = [
        _axis_coordinates(node, size, k, spatial, dtype, align_corners)
        for k, size in enumerate(spatial)
    ]
    ones = R.full(ShapeExpr(tuple(spatial)), number(1, dtype))
    points = R.stack(Tuple((*reversed(axes), ones)), axis=count)
    flat = reshape_to(points, (prod(spatial), count + 1))
    result = R.matmul(flat, R.permute_dims(node[0], [0, 2, 1]))
    return reshape_to(result, (batch, *spatial, count))


def _axis_coordinates(
    node: OnnxNode, size: Dim, axis: int, spatial: list[Dim], dtype: str, align_corners: bool
) -> Expr:
    """Returns the coordinate of each element of an image along an axis, in [-1, 1]."""
    i = R.astype(R.arange(PrimValue(0), PrimValue(size), PrimValue(1), dtype="int64"), dtype)
    n = size_number(size, dtype)
    one, two = number(1, dtype), number(2, dtype)
    if align_corners:
        coordinates = R.subtract(R.divide(R.multiply(two, i), R.subtract(n, one)), one)
    else:
        coordinates = R.subtract(R.divide(R.add(R.multiply(two, i), one), n), one)
    coordinates = reshape_to(coordinates, (size, *[1] * (len(spatial) - 1 - axis)))
    return R.broadcast_to(coordinates, ShapeExpr(tuple(spatial)))


@onnx_op("GridSample")
def grid_sample(node: OnnxNode) -> Expr:
    spatial = node.dims()[2:]
    mode, padding = METHODS[node.choice("mode", METHODS)], node.choice("padding_mode", PADDINGS)
    align_corners = node.flag("align_corners")
    count = len(spatial)
    taps = []
    for k, size in enumerate(spatial):
        position = _coordinate(node, count - 1 - k, size, align_corners)
        taps.append(_taps(node, position, size, mode, padding, align_corners))
    image = node.emit(R.permute_dims(node[0], [0, *range(2, count + 2), 1]))
    terms = []
    for corner in combinations(*taps):
        weight = reduce(R.multiply, [w for _, w, _ in corner])
        if padding == "zeros":
            all_inside = reduce(R.logical_and, [is_inside for *_, is_inside in corner])
            weight = R.where(all_inside, weight, number(0, node.dtype()))
        index = R.stack(Tuple(tuple([tap_index for tap_index, *_ in corner])), axis=count + 1)
        samples = R.gather_nd(image, index, batch_dims=1)
        terms.append(R.multiply(samples, R.expand_dims(weight, [count + 1])))
    result = node.emit(reduce(R.add, terms))
    return R.permute_dims(result, [0, count + 1, *range(1, count + 1)])


def _coordinate(node: OnnxNode, k: int, size: Dim, align_corners: bool) -> Expr:
    """Returns a grid coordinate in units of image elements."""
    dtype = node.dtype()
    last = node.rank(1) - 1
    grid = R.squeeze(R.strided_slice(node[1], [last], (k,), (k + 1,)), [last])
    grid = grid if node.dtype(1) == dtype else R.astype(grid, dtype)
    n, one, half = size_number(size, dtype), number(1, dtype), number(0.5, dtype)
    shifted = R.add(grid, one)
    if align_corners:
        return node.emit(R.multiply(shifted, R.multiply(half, R.subtract(n, one))))
    return node.emit(R.multiply(R.subtract(R.multiply(shifted, n), one), half))


Tap = tuple[Expr, Expr, Expr]  # index, weight, whether the index is inside the image


def _taps(
    node: OnnxNode, position: Expr, size: Dim, mode: str, padding: str, align_corners: bool
) -> list[Tap]:
    """Returns the elements to interpolate along an axis, with their weights."""
    dtype = node.dtype()
    one = number(1, dtype)
    if mode != "cubic":
        position = node.emit(_apply_padding_mode(node, position, size, padding, align_corners))
    if mode == "nearest":
        return [_tap(node, R.round(position), one, size, padding, align_corners)]
    base = node.emit(R.floor(position))
    fraction = node.emit(R.subtract(position, base))
    if mode == "linear":
        weights = [(0, R.subtract(one, fraction)), (1, fraction)]
    else:
        weights = [
            (k, _cubic(node, R.abs(R.subtract(fraction, number(k, dtype))))) for k in (-1, 0, 1, 2)
        ]
    return [
        _tap(node, R.add(base, number(k, dtype)), w, size, padding, align_corners)
        for k, w in weights
    ]


def _tap(
    node: OnnxNode, coordinate: Expr, weight: Expr, size: Dim, padding: str, align_corners: bool
) -> Tap:
    dtype = node.dtype()
    zero, last = number(0, dtype), size_number(size - 1, dtype)
    coordinate = node.emit(_apply_padding_mode(node, coordinate, size, padding, align_corners))
    is_inside = R.logical_and(R.greater_equal(coordinate, zero), R.less_equal(coordinate, last))
    index = R.astype(R.minimum(R.maximum(coordinate, zero), last), "int64")
    return node.emit(index), node.emit(weight), node.emit(is_inside)


def _apply_padding_mode(
    node: OnnxNode, position: Expr, size: Dim, padding: str, align_corners: bool
) -> Expr:
    """Returns a coordinate mapped into the image according to the padding mode."""
    dtype = node.dtype()
    zero, last = number(0, dtype), size_number(size - 1, dtype)
    if padding == "border":
        return R.minimum(R.maximum(position, zero), last)
    if padding != "reflection":
        return position
    low = number(0 if align_corners else -0.5, dtype)
    span = size_number(size - 1 if align_corners else size, dtype)
    span = node.emit(R.maximum(span, number(1, dtype))) if align_corners else span
    period = R.multiply(span, number(2, dtype))
    distance = R.abs(R.subtract(position, low))
    phase = node.emit(R.subtract(distance, R.multiply(period, R.floor(R.divide(distance, period)))))
    reflected = R.add(R.minimum(phase, R.subtract(period, phase)), low)
    return R.minimum(R.maximum(reflected, zero), last)


def _cubic(node: OnnxNode, distance: Expr, a: float = -0.75) -> Expr:
    dtype = node.dtype()
    d = node.emit(distance)

    def polynomial(*factors: float) -> Expr:
        result: Expr = number(factors[0], dtype)
        for factor in factors[1:]:
            result = R.add(R.multiply(result, d), number(factor, dtype))
        return result

    near, far = polynomial(a + 2, -(a + 3), 0.0, 1.0), polynomial(a, -5 * a, 8 * a, -4 * a)
    return R.where(R.less_equal(d, number(1, dtype)), near, far)


@onnx_op("RoiAlign")
def roi_align(node: OnnxNode) -> Expr:
    dtype = node.dtype()
    half_pixel = node.attr("coordinate_transformation_mode", "output_half_pixel") == "half_pixel"
    aligned = half_pixel and node.version >= 16
    if node.choice("mode", ("avg", "max")) == "max":
        return _roi_maximum(node, aligned)
    images = R.expand_dims(R.astype(node[2], dtype), [1])
    return R.vision.roi_align(
        node[0],
        R.concat(Tuple((images, node[1])), axis=1),
        pooled_size=[node.attr("output_height"), node.attr("output_width")],
        spatial_scale=float(node.attr("spatial_scale")),
        sample_ratio=node.attr("sampling_ratio") or -1,
        aligned=aligned,
        mode="avg",
    )


def _roi_maximum(node: OnnxNode, aligned: bool) -> Expr:
    """Returns the maximum of weighted corners, not of interpolated samples: ONNX's mode `max`."""
    dtype, scale = node.dtype(), float(node.attr("spatial_scale"))
    samples = max(int(node.attr("sampling_ratio")), 0)
    kernel = node.importer.builder.kernel(roi_maximum_kernel(dtype, scale, samples, aligned))
    sizes = (node.attr("output_height"), node.attr("output_width"))
    info = TensorStructInfo((node.dims(1)[0], node.dims()[1], *sizes), dtype)
    images = node.emit(R.astype(node[2], "int64"))
    return R.call_kernel(kernel, (node[0], node[1], images), out_sinfo=info)


@onnx_op("NonMaxSuppression")
def non_max_suppression(node: OnnxNode) -> Any:
    boxes = node[0]
    if node.flag("center_point_box"):
        boxes = _corners(node)
    limit_operand = node[2] if node.has(2) else constant(0)
    iou_threshold = node[3] if node.has(3) else constant(0.0, "float32")
    score_threshold = node[4] if node.has(4) else constant(-3.4e38, "float32")
    if node.has(2) and node.elements(2) is None:
        node.require_known(2)
    images, classes, count = node.dims(1)
    limit = node.sizes(2)[0] if node.has(2) else 0
    max_selected = images * classes * dims.dim_min(limit, count)
    scalars = (limit_operand, iou_threshold, score_threshold)
    rows = suppressed(node.importer.builder, boxes, node[1], *scalars, capacity=max_selected)
    sizes = (node.importer.symbols.fresh(f"{node.part_name()}_0"), 3)
    info = TensorStructInfo(sizes, "int64")
    return cast_checked(node.importer, node.part_name(), rows, info, node.span)


def _corners(node: OnnxNode) -> Expr:
    """Returns the boxes of operand 0, which have a centre format, by their corners."""
    x, y, w, h = (R.strided_slice(node[0], [2], (k,), (k + 1,)) for k in range(4))
    half = number(0.5, node.dtype())
    w, h = node.emit(R.multiply(w, half)), node.emit(R.multiply(h, half))
    corners = (R.subtract(y, h), R.subtract(x, w), R.add(y, h), R.add(x, w))
    return R.concat(Tuple(corners), axis=2)
