"""Mappings of `torchvision.ops`: regions of interest, box suppression, deformable convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.deform_conv import DeformableConvolution
from structir.frontend.nms import suppressed
from structir.frontend.scalars import index_range, number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.script import R


@torch_op(":torchvision.nms.default")
def non_max_suppression(node: FxNode) -> Expr:
    """Builds nms: the kernel of one image and one class, without a limit."""
    (count,) = node.dims("scores")
    boxes = R.reshape(cast(node["dets"], "float32"), ShapeExpr((1, count, 4)))
    lowest = number(np.finfo(np.float32).min, "float32")
    scores = R.reshape(cast(node["scores"], "float32"), ShapeExpr((1, 1, count)))
    limits = (
        as_tensor(count, "int64"),
        number(_rounded_down(float(node.arg("iou_threshold"))), "float32"),
        number(-np.inf, "float32"),
    )
    builder = node.host.builder
    rows = suppressed(builder, boxes, R.maximum(scores, lowest), *limits, capacity=count)
    return R.take(rows, number(2, "int64"), axis=1)


def _rounded_down(value: float) -> np.float32:
    """Returns the largest float32 up to a value: torch compares float32 with a Python float."""
    single = np.float32(value)
    return single if float(single) <= value else np.nextafter(single, np.float32(-np.inf))


def _regions(node: FxNode, aligned: bool) -> Expr:
    return R.vision.roi_align(
        node["input"],
        cast(node["rois"], node.dtype("input")),
        pooled_size=_pooled_size(node),
        spatial_scale=float(node.arg("spatial_scale")),
        sample_ratio=max(node.plain("sampling_ratio"), -1),
        aligned=aligned,
    )


def _pooled_size(node: FxNode) -> list[int]:
    return [node.plain("pooled_height"), node.plain("pooled_width")]


@torch_op(":torchvision.roi_align.default")
def roi_align(node: FxNode) -> Expr:
    return _regions(node, node.flag("aligned"))


@torch_op(":torchvision.roi_pool.default")
def roi_pool(node: FxNode) -> list[Any]:
    """Builds roi_pool; its second result is used by the backward pass only."""
    pooled = R.vision.roi_pool(
        node["input"],
        cast(node["rois"], node.dtype("input")),
        pooled_size=_pooled_size(node),
        spatial_scale=float(node.arg("spatial_scale")),
    )
    return [pooled, None]


@torch_op(":torchvision.ps_roi_align.default")
def position_sensitive_roi_align(node: FxNode) -> list[Any]:
    """Builds ps_roi_align: each cell of roi_align reads channels of its own.

    The second result is used by the backward pass only.
    """
    height, width = _pooled_size(node)
    regions, channels, *_ = node.out_dims()
    split = ShapeExpr((regions, channels, height * width, height * width))
    cells = node.emit(R.reshape(_regions(node, aligned=True), split))
    axes_first = node.emit(R.permute_dims(cells, [2, 3, 0, 1]))
    diagonal = index_range(height * width)
    own = R.permute_dims(R.index_tensor(axes_first, Tuple((diagonal, diagonal))), [1, 2, 0])
    return [R.reshape(own, ShapeExpr((regions, channels, height, width))), None]


@torch_op(":torchvision.deform_conv2d.default")
def deformable_convolution(node: FxNode) -> Expr:
    geometry = DeformableConvolution(
        strides=(node.plain("stride_h"), node.plain("stride_w")),
        dilations=(node.plain("dilation_h"), node.plain("dilation_w")),
        padding=(node.plain("pad_h"), node.plain("pad_w")),
        groups=node.size("groups"),
        offset_groups=node.size("offset_groups"),
    )
    node.static_dims("weight")
    mask = node["mask"] if node.flag("use_mask") else None
    operands = node["input"], node["weight"], node["offset"], mask
    result = geometry.build(node.host.builder, *operands)
    return R.add(result, R.reshape(node["bias"], ShapeExpr((1, node.dims("bias")[0], 1, 1))))
