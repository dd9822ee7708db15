"""Mappings of pooling over windows and global pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.padding import emit_pad
from structir.frontend.onnx.registry import onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.windows import OnnxWindow, window_of
from structir.frontend.scalars import constant, index_range, number, reshape_to
from structir.ir import dims
from structir.ir.dims import Poly
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

Pool = Callable[..., Expr]
MAX: dict[int, Pool] = {1: R.nn.max_pool1d, 2: R.nn.max_pool2d, 3: R.nn.max_pool3d}
MEAN: dict[int, Pool] = {1: R.nn.avg_pool1d, 2: R.nn.avg_pool2d, 3: R.nn.avg_pool3d}


def _window(node: OnnxNode) -> OnnxWindow:
    sizes = tuple(node.attr("kernel_shape"))
    if not 1 <= len(sizes) <= 3:
        node.fail(f"kernel_shape: expected 1 to 3 spatial axes, found {len(sizes)}")
    return window_of(node, sizes, crops=True)  # as ONNX Runtime does; convolutions do not


def _pool(pools: dict[int, Pool], x: Expr, window: OnnxWindow, ceil: bool, **options: Any) -> Expr:
    return pools[len(window.sizes)](
        x,
        pool_size=list(window.sizes),
        strides=list(window.strides),
        padding=window.padding,
        dilation=list(window.dilations),
        ceil_mode=ceil,
        **options,
    )


def _rounded_up(node: OnnxNode, window: OnnxWindow) -> OnnxWindow:
    """Returns the window with the padding after each axis extended for ceil_mode.

    No window starts after the last element or the padding before the first one.
    """
    after = []
    spatial = zip(
        node.dims()[2:],
        window.sizes,
        window.strides,
        window.dilations,
        window.before,
        window.after,
        strict=True,
    )
    for size, k, stride, dilation, first, last in spatial:
        extent = (k - 1) * dilation + 1
        padded_size = size + first
        count = dims.ceildiv(padded_size + last - extent, stride) + 1
        if dims.at_least(extent - last, stride) is not True:
            count = dims.dim_min(count, dims.ceildiv(padded_size, stride))
        after.append(dims.dim_max((count - 1) * stride + extent - padded_size, 0))
    return attrs.evolve(window, after=tuple(after))


def _lowest(dtype: str) -> float:
    return -math.inf if is_float(dtype) else float(np.iinfo(dtype).min)


@onnx_op("MaxPool")
def max_pool(node: OnnxNode) -> Any:
    window, ceil = _window(node), node.flag("ceil_mode")
    if window.is_static and not node.is_used(1):
        return _pool(MAX, node[0], window, ceil)
    window = _rounded_up(node, window) if ceil else window
    if node.is_used(1):
        return _with_positions(node, window)
    x, window = _padded_before(node, node[0], window, _lowest(node.dtype()))
    return _pool(MAX, x, window, False)


def _padded_before(
    node: OnnxNode, x: Expr, window: OnnxWindow, value: float
) -> tuple[Expr, OnnxWindow]:
    """Pads by symbolic amounts before pooling."""
    x = emit_pad(node, x, [0, 0, *window.before], [0, 0, *window.after], "constant", value)
    no_padding = (0,) * len(window.sizes)
    return x, attrs.evolve(window, before=no_padding, after=no_padding)


def _with_positions(node: OnnxNode, window: OnnxWindow) -> list[Expr]:
    """Returns the maxima, and their flat indices in the operand."""
    elements = _windows(node, window)
    count = len(window.sizes)
    rank = 2 + 2 * count
    axes = list(range(2 + count, rank))
    values = R.max(elements, axis=axes)
    indices = _windows(node, window, _flat_indices(node))
    sizes = node.tensor_info(elements).dims
    flat = (*sizes[: 2 + count], math.prod(window.sizes))
    first = R.argmax(reshape_to(elements, flat), axis=2 + count, keepdims=True)
    selected = R.gather_elements(
        reshape_to(indices, flat), R.astype(first, "int64"), axis=2 + count
    )
    return [values, R.squeeze(selected, [2 + count])]


def _flat_indices(node: OnnxNode) -> Expr:
    """Returns the flat index of each element, in column-major order if `storage_order` is 1."""
    sizes = node.dims()
    indices = index_range(prod(sizes))
    if not node.flag("storage_order"):
        return node.emit(reshape_to(indices, sizes))
    reversed_sizes = (*sizes[:2], *reversed(sizes[2:]))
    order = [0, 1, *reversed(range(2, len(sizes)))]
    return node.emit(R.permute_dims(reshape_to(indices, reversed_sizes), order))


def _windows(node: OnnxNode, window: OnnxWindow, x: Expr | None = None) -> Expr:
    """Returns the elements of each window along trailing axes, one per spatial axis."""
    lowest = _lowest(node.dtype()) if x is None else -1
    x = node[0] if x is None else x
    count = len(window.sizes)
    dtype = node.tensor_info(x).dtype or "float32"
    value = number(lowest, dtype)
    x = emit_pad(node, x, [0, 0, *window.before], [0, 0, *window.after], "constant", value)
    x = node.emit(x)
    steps: Any = zip(window.sizes, window.strides, window.dilations, strict=True)
    for k, (size, stride, dilation) in enumerate(steps):
        axis = 2 + 2 * k
        length = node.tensor_info(x).dims[axis]
        positions = dims.floordiv(length - (size - 1) * dilation - 1, stride) + 1
        starts = index_range(positions)
        offsets = constant(np.arange(size) * dilation)
        indices = R.add(
            reshape_to(R.multiply(starts, constant(stride)), (positions, 1)),
            reshape_to(offsets, (1, size)),
        )
        x = node.emit(R.take(x, indices, axis=axis))
    outer = [2 + 2 * k for k in range(count)]
    return node.emit(R.permute_dims(x, [0, 1, *outer, *[a + 1 for a in outer]]))


@onnx_op("AveragePool")
def average_pool(node: OnnxNode) -> Expr:
    return _mean(node, node[0], _window(node), node.flag("count_include_pad"))


def _mean(node: OnnxNode, x: Expr, window: OnnxWindow, include_pad: bool) -> Expr:
    """Returns the mean over windows. `include_pad` counts the padding, except for the part that
    ceil_mode adds."""
    ceil = node.flag("ceil_mode")
    if window.is_static:
        return _pool(MEAN, x, window, ceil, count_include_pad=include_pad)
    extended = _rounded_up(node, window) if ceil else window
    ones = R.full(ShapeExpr(node.dims()), like(node, 1.0))
    before, after = [0, 0, *window.before], [0, 0, *window.after]
    if include_pad:
        ones = emit_pad(node, ones, before, after, "constant", 1.0)
        extra = [0, 0, *[a - b for a, b in zip(extended.after, window.after, strict=True)]]
        ones = emit_pad(node, ones, [0] * len(extra), extra, "constant", 0.0)
    else:
        ones = emit_pad(node, ones, before, [0, 0, *extended.after], "constant", 0.0)
    x, unpadded = _padded_before(node, x, extended, 0.0)
    weight = node.importer.fold_constant(_pool(MEAN, ones, unpadded, False, count_include_pad=True))
    return R.divide(_pool(MEAN, x, unpadded, False, count_include_pad=True), weight)


@onnx_op("LpPool")
def lp_pool(node: OnnxNode) -> Expr:
    window, p = _window(node), float(node.attr("p", 2))
    window = _rounded_up(node, window) if node.flag("ceil_mode") else window
    powers = R.power(R.abs(node[0]), like(node, p))
    if not window.is_static:
        powers, window = _padded_before(node, powers, window, 0.0)
    mean = _pool(MEAN, powers, window, False, count_include_pad=True)
    total = R.multiply(mean, like(node, math.prod(window.sizes)))
    return R.power(total, like(node, 1 / p))


@onnx_op("MaxUnpool")
def max_unpool(node: OnnxNode) -> Expr:
    sizes = node.sizes(2) if node.has(2) else _unpooled_dims(node)
    flat = reshape_to(R.full(ShapeExpr(tuple(sizes)), like(node, 0)), (prod(sizes),))
    count = prod(node.dims())
    pooled_sizes = _unpooled_dims(node)
    indices = reshape_to(node[1], (count,))
    if node.has(2) and tuple(sizes) != tuple(pooled_sizes):
        indices = _reindex(node, indices, pooled_sizes, tuple(sizes))
    values = R.scatter_elements(flat, indices, reshape_to(node[0], (count,)), axis=0)
    return reshape_to(values, sizes)


def _reindex(node: OnnxNode, indices: Expr, from_sizes: Any, to_sizes: Any) -> Expr:
    """Returns flat indices into one shape as flat indices into another shape."""
    result: Expr = constant(0)
    for axis in reversed(range(len(from_sizes))):
        if any(isinstance(d, Poly) for d in (*from_sizes[axis:], *to_sizes[axis:])):
            node.fail(
                f"output_shape: expected static shapes, found {from_sizes} and {to_sizes}",
                node.static_size_hint(0, axis),
            )
        coordinate = R.floor_mod(
            R.floor_divide(indices, constant(math.prod(from_sizes[axis + 1 :]))),
            constant(from_sizes[axis]),
        )
        result = R.add(result, R.multiply(coordinate, constant(math.prod(to_sizes[axis + 1 :]))))
    return result


def _unpooled_dims(node: OnnxNode) -> tuple[Any, ...]:
    """Returns the shape of the operand that a pool would reduce to the shape of operand 0."""
    kernel = node.attr("kernel_shape")
    count = len(kernel)
    strides = node.attr("strides", None) or (1,) * count
    pads = node.attr("pads", None) or (0,) * (2 * count)
    spatial = [
        (d - 1) * s + k - pads[a] - pads[a + count]
        for a, (d, k, s) in enumerate(zip(node.dims()[2:], kernel, strides, strict=True))
    ]
    return (*node.dims()[:2], *spatial)


def _over_all(op: Any) -> Callable[[OnnxNode], Expr]:
    return lambda node: op(node[0], axis=list(range(2, node.rank())), keepdims=True)


onnx_op("GlobalAveragePool")(_over_all(R.mean))
onnx_op("GlobalMaxPool")(_over_all(R.max))


@onnx_op("GlobalLpPool")
def global_lp_pool(node: OnnxNode) -> Expr:
    p = float(node.attr("p", 2))
    axes = list(range(2, node.rank()))
    total = R.sum(R.power(R.abs(node[0]), like(node, p)), axis=axes, keepdims=True)
    return R.power(total, like(node, 1 / p))
