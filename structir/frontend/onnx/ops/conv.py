"""Mappings of convolutions: plain, transposed and deformable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structir.frontend.deform_conv import DeformableConvolution
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.padding import emit_pad
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.sizes import require
from structir.frontend.onnx.windows import auto_pad_of, pads_of, per_axis_of, window_of
from structir.ir.dims import Dim, Poly, compare, floordiv
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R

Array = np.ndarray[Any, Any]
CONVOLUTIONS: dict[int, Callable[..., Expr]] = {
    1: R.nn.conv1d,
    2: R.nn.conv2d,
    3: R.nn.conv3d,
}
TRANSPOSED: dict[int, Callable[..., Expr]] = {
    1: R.nn.conv1d_transpose,
    2: R.nn.conv2d_transpose,
    3: R.nn.conv3d_transpose,
}


onnx_op("Conv")(lambda node: with_bias(node, convolve(node, node[0], node[1]), 2))


def convolve(node: OnnxNode, x: Expr, weight: Expr, index: int = 1) -> Expr:
    """Returns the convolution of a node without its bias."""
    sizes = kernel_sizes(node, index)
    window = window_of(node, sizes)
    if not window.is_static:
        x = emit_pad(node, x, [0, 0, *window.before], [0, 0, *window.after], "constant")
    return CONVOLUTIONS[len(sizes)](
        x,
        weight,
        strides=list(window.strides),
        padding=window.padding if window.is_static else [0] * len(sizes),
        dilation=list(window.dilations),
        groups=node.attr("group", 1),
    )


def kernel_sizes(node: OnnxNode, index: int = 1) -> tuple[Dim, ...]:
    """Returns the spatial sizes of the weight."""
    sizes = node.dims(index)[2:]
    declared = node.attr("kernel_shape", None)
    if declared is not None and any(isinstance(d, Poly) for d in sizes):
        sizes = tuple(declared)
    if not 1 <= len(sizes) <= 3:
        node.fail(f"weight: expected 1 to 3 spatial axes, found {len(sizes)}")
    if declared is not None and tuple(declared) != sizes:
        node.fail(
            f"kernel_shape: expected {list(sizes)}, the sizes of the weight, found {list(declared)}"
        )
    return sizes


def with_bias(node: OnnxNode, x: Expr, index: int) -> Expr:
    """Returns the result with the bias operand added per channel, if present."""
    if not node.has(index):
        return x
    trailing = [1] * (node.rank() - 2)
    return R.add(x, R.reshape(node[index], ShapeExpr((1, node.dims(index)[0], *trailing))))


@onnx_op("ConvTranspose")
def conv_transpose(node: OnnxNode) -> Expr:
    sizes: Any = kernel_sizes(node)
    count = len(sizes)
    output_padding = list(node.attr("output_padding", None) or [0] * count)
    strides = list(per_axis_of(node, "strides", count))
    dilations = list(per_axis_of(node, "dilations", count))
    before, after = _trim_amounts(node, sizes, strides, dilations, output_padding)
    if node.is_constant(1) and set(dilations) == {1}:
        result = _conv_by_phases(node, sizes, strides)
    else:
        result = TRANSPOSED[count](
            node[0],
            node[1],
            strides=strides,
            padding=[0] * (2 * count),
            output_padding=[0] * count,
            dilation=dilations,
            groups=node.attr("group", 1),
        )
    if any([isinstance(amount, Poly) for amount in before + after]):
        return with_bias(node, _crop_to_shape(node, result, before, after, output_padding), 2)
    missing = [max(0, e - a) for e, a in zip(output_padding, after, strict=True)]
    surplus = [a - e for e, a in zip(output_padding, after, strict=True)]
    ends = [r - max(0, c) if c > 0 else r for r, c in zip(missing, surplus, strict=True)]
    result = emit_pad(node, result, [0, 0, *[-b for b in before]], [0, 0, *ends], "constant")
    return with_bias(node, result, 2)


def _crop_to_shape(
    node: OnnxNode, result: Expr, before: list[Dim], after: list[Dim], output_padding: list[int]
) -> Expr:
    """Crops a result of symbolic size to its size, which must not be larger: `output_shape`, or
    with `auto_pad` the strides times the sizes of the operand."""
    require(node, [compare(">=", b + a, 0) for b, a in zip(before, after, strict=True)])
    if any(output_padding):
        result = emit_pad(
            node, result, [0] * (len(before) + 2), [0, 0, *output_padding], "constant"
        )
    spatial = zip(node.dims()[2:], per_axis_of(node, "strides", len(before)), strict=True)
    sizes = node.attr("output_shape", None) or [n * s for n, s in spatial]  # of SAME
    ends = [b + n for b, n in zip(before, sizes, strict=True)]
    axes = list(range(2, len(before) + 2))
    bounds = ShapeExpr(tuple(before)), ShapeExpr(tuple(ends))
    return R.strided_slice(result, axes, *bounds, assume_inbound=True)


def _conv_by_phases(node: OnnxNode, sizes: tuple[int, ...], strides: list[int]) -> Expr:
    """Returns a transposed convolution as a plain one with one output channel per stride phase,
    whose results are interleaved."""
    count, groups = len(sizes), node.attr("group", 1)
    taps = [-(-k // s) for k, s in zip(sizes, strides, strict=True)]
    result = CONVOLUTIONS[count](
        node[0],
        Constant(phases(node.constant(1), strides, taps, groups)),
        padding=[t - 1 for t in taps] * 2,
        groups=groups,
    )
    channels = groups * node.static_dims(1)[1]
    batch, *spatial = [node.dims()[0], *node.dims()[2:]]
    positions = [n + t - 1 for n, t in zip(spatial, taps, strict=True)]
    split_phases = R.reshape(result, ShapeExpr((batch, channels, *strides, *positions)))
    order = [index for k in range(count) for index in (2 + count + k, 2 + k)]
    interleaved = R.permute_dims(split_phases, [0, 1, *order])
    full_sizes = [n * s for n, s in zip(positions, strides, strict=True)]
    result = R.reshape(interleaved, ShapeExpr((batch, channels, *full_sizes)))
    ends = [(n - 1) * s + k for n, s, k in zip(spatial, strides, sizes, strict=True)]
    axes = [k + 2 for k in range(count) if ends[k] != full_sizes[k]]
    if not axes:
        return result
    end_sizes = [ends[a - 2] for a in axes]
    return R.strided_slice(result, axes, ShapeExpr((0,) * len(axes)), ShapeExpr(tuple(end_sizes)))


def phases(weight: Array, strides: list[int], taps: list[int], groups: int) -> Array:
    """Returns the weight (in, out, *sizes) of a transposed convolution as the weight of a plain
    one: one output channel per result and phase, with the taps reversed."""
    count = len(strides)
    full = [t * s for t, s in zip(taps, strides, strict=True)]
    padding = [(0, f - k) for f, k in zip(full, weight.shape[2:], strict=True)]
    padded = np.pad(weight, [(0, 0), (0, 0), *padding])
    inner, outer = weight.shape[0] // groups, weight.shape[1]
    split_shape = [n for t, s in zip(taps, strides, strict=True) for n in (t, s)]
    parts = padded.reshape(groups, inner, outer, *split_shape)
    tap_axes, phase_axes = range(3, 3 + 2 * count, 2), range(4, 4 + 2 * count, 2)
    parts = np.flip(parts, tuple(tap_axes)).transpose(0, 2, *phase_axes, 1, *tap_axes)
    return np.ascontiguousarray(parts.reshape(-1, inner, *taps))


def _trim_amounts(
    node: OnnxNode, sizes: Any, strides: list[int], dilations: list[int], output_padding: list[int]
) -> tuple[list[Dim], list[Dim]]:
    """Returns the number of elements to crop before and after along each axis."""
    count = len(sizes)
    mode = auto_pad_of(node)
    output_shape = node.attr("output_shape", None)
    if output_shape is None and mode == "NOTSET":
        pads: list[Dim] = list(pads_of(node, count))
        return pads[:count], pads[count:]
    if output_shape is None and mode == "VALID":
        return [0] * count, [0] * count
    before: list[Dim] = []
    after: list[Dim] = []
    spatial = node.dims()[2:]
    for axis in range(count):
        extent = (sizes[axis] - 1) * dilations[axis] + 1
        if output_shape is not None:
            full = strides[axis] * (spatial[axis] - 1) + output_padding[axis] + extent
            total = full - output_shape[axis]
        else:
            total = output_padding[axis] + extent - strides[axis]
        small = floordiv(total, 2)
        large = total - small
        first, last = (small, large) if mode == "SAME_UPPER" else (large, small)
        before.append(first)
        after.append(last)
    return before, after


@onnx_op("DeformConv")
def deform_conv(node: OnnxNode) -> Expr:
    """Builds a deformable convolution: a kernel that samples the image at the offsets, then a
    grouped matrix product."""
    if node.rank() != 4:
        node.fail(f"expected an image of rank 4, found rank {node.rank()}")
    node.static_dims(1)
    geometry = DeformableConvolution(
        strides=per_axis_of(node, "strides", 2),
        dilations=per_axis_of(node, "dilations", 2),
        padding=pads_of(node, 2)[:2],
        groups=node.attr("group", 1) or 1,
        offset_groups=node.attr("offset_group", 1) or 1,
    )
    product = geometry.build(node.importer.builder, node[0], node[1], node[2], node.get(4))
    return with_bias(node, product, 3)
