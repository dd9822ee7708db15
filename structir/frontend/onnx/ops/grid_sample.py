"""Mappings of GridSample, AffineGrid, RoiAlign and NonMaxSuppression."""

from __future__ import annotations

from typing import Any

from structir.frontend.interpolation import GridSampler, affine_grid
from structir.frontend.nms import suppressed
from structir.frontend.onnx.joins import cast_checked
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.roi_align import roi_maximum_kernel
from structir.frontend.scalars import constant, number
from structir.ir import dims
from structir.ir.expr import Expr, Tuple
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
def affine_grid_of_size(node: OnnxNode) -> Expr:
    return affine_grid(node[0], node.sizes(1), node.dtype(), node.flag("align_corners"))


@onnx_op("GridSample")
def grid_sample(node: OnnxNode) -> Expr:
    mode, padding = METHODS[node.choice("mode", METHODS)], node.choice("padding_mode", PADDINGS)
    dtype, aligned = node.dtype(), node.flag("align_corners")
    sampler = GridSampler(node.emit, R.astype(node[1], dtype), dtype, padding, aligned)
    return sampler.sample(node[0], node.dims()[2:], mode)


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
