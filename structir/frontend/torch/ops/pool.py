"""Mappings of pooling over windows and adaptive pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from structir.frontend.scalars import constant, index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.conv import per_axis
from structir.frontend.torch.ops.padding import emit_pad
from structir.frontend.torch.ops.shapes import reorder_axes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast, product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R

Pool = Callable[..., Expr]
MAX: dict[int, Pool] = {1: R.nn.max_pool1d, 2: R.nn.max_pool2d, 3: R.nn.max_pool3d}
MEAN: dict[int, Pool] = {1: R.nn.avg_pool1d, 2: R.nn.avg_pool2d, 3: R.nn.avg_pool3d}


def _axes_of(node: FxNode) -> int:
    """Returns the number of spatial axes of a pooling op, from its name."""
    return int(node.spec.target.partition("pool")[2][0])


def _with_batch_axis(node: FxNode, count: int) -> tuple[Expr, bool]:
    x = node["self"]
    rank = node.rank()
    return (x, False) if rank == count + 2 else (R.expand_dims(x, [0]), True)


def _window(node: FxNode, count: int) -> tuple[list[int], list[int], list[int], list[int]]:
    kernel = per_axis(node, "kernel_size", count, 1)
    strides = list(node.ints("stride", ())) or kernel
    strides = strides * count if len(strides) == 1 else strides
    return (
        kernel,
        strides,
        per_axis(node, "padding", count, 0),
        per_axis(node, "dilation", count, 1),
    )


def _ceil_mode_padding(node: FxNode, x: Expr, count: int) -> list[Dim]:
    """Returns the padding after each axis that ceil_mode needs to reach torch's recorded output
    sizes."""
    kernel, strides, padding, dilation = _window(node, count)
    sizes, out_sizes = node.dims_of(x)[2:], node.out_dims()[-count:]
    after: list[Dim] = []
    for k in range(count):
        extent = (kernel[k] - 1) * dilation[k] + 1
        missing = (out_sizes[k] - 1) * strides[k] + extent - sizes[k] - padding[k]
        after.append(dims.dim_max(missing, 0))
    return after


@torch_op("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(node: FxNode) -> Expr:
    count = _axes_of(node)
    x, is_unbatched = _with_batch_axis(node, count)
    kernel, strides, padding, dilation = _window(node, count)
    result = MAX[count](
        x,
        pool_size=kernel,
        strides=strides,
        padding=padding * 2,
        dilation=dilation,
        ceil_mode=node.flag("ceil_mode"),
    )
    return R.squeeze(result, [0]) if is_unbatched else result


def _lowest(node: FxNode) -> float:
    return -math.inf if is_float(node.dtype()) else -(2.0**31)


@torch_op("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(node: FxNode) -> list[Expr]:
    """Returns the maxima, and their flat indices in the spatial plane."""
    count = _axes_of(node)
    maxima = max_pool(node)
    x, is_unbatched = _with_batch_axis(node, count)
    flat = index_range(product(node.dims_of(x)[2:]))
    plane = reshape_to(flat, (1, 1, *node.dims_of(x)[2:]))
    windows, indices = _gather_windows(node, x, _lowest(node)), _gather_windows(node, plane, -1)
    rank = 2 + count
    best_in_window = R.argmax(windows, axis=rank, keepdims=True)
    sizes = (*node.dims_of(windows)[:rank], node.dims_of(windows)[rank])
    selected = R.gather_elements(
        R.broadcast_to(indices, sizes), cast(best_in_window, "int64"), axis=rank
    )
    positions = R.squeeze(selected, [rank, 0] if is_unbatched else [rank])
    return [maxima, positions]


def _gather_windows(node: FxNode, x: Expr, filler: float) -> Expr:
    """Returns the elements of each window along a new last axis."""
    count = _axes_of(node)
    kernel, strides, padding, dilation = _window(node, count)
    after: list[Dim] = list(padding)
    if node.flag("ceil_mode"):
        after = _ceil_mode_padding(node, x, count)
    x = node.emit(emit_pad(node, x, [0, 0, *padding], [0, 0, *after], filler))
    for k in range(count):
        axis = 2 + 2 * k
        positions = node.out_dims()[-count + k]
        starts = R.multiply(
            reshape_to(index_range(positions), (positions, 1)), constant(strides[k])
        )
        offsets = constant([[j * dilation[k] for j in range(kernel[k])]])
        x = node.emit(R.take(x, R.add(starts, offsets), axis=axis))
    outer = [2 + 2 * k for k in range(count)]
    x = node.emit(reorder_axes(x, [0, 1, *outer, *[a + 1 for a in outer]]))
    return node.emit(reshape_to(x, (*node.dims_of(x)[: 2 + count], math.prod(kernel))))


@torch_op("avg_pool1d", "avg_pool2d", "avg_pool3d")
def mean_pool(node: FxNode) -> Expr:
    count = _axes_of(node)
    x, is_unbatched = _with_batch_axis(node, count)
    kernel, strides, padding, _ = _window(node, count)
    divisor = node.arg("divisor_override", None)
    if divisor is None:
        result = MEAN[count](
            x,
            pool_size=kernel,
            strides=strides,
            padding=padding * 2,
            ceil_mode=node.flag("ceil_mode"),
            count_include_pad=node.flag("count_include_pad", True),
        )
    else:
        result = _pool_with_divisor(node, x, divisor)
    return R.squeeze(result, [0]) if is_unbatched else result


def _pool_with_divisor(node: FxNode, x: Expr, divisor: int) -> Expr:
    """Returns the sum of each window divided by `divisor`."""
    count = _axes_of(node)
    kernel, strides, padding, _ = _window(node, count)
    after = _ceil_mode_padding(node, x, count) if node.flag("ceil_mode") else padding
    padded = emit_pad(node, x, [0, 0, *padding], [0, 0, *after], 0.0)
    dtype, size = node.out_dtype(), math.prod(kernel)
    if is_float(dtype):
        mean = MEAN[count](padded, pool_size=kernel, strides=strides)
        return R.multiply(mean, number(size / divisor, dtype))
    mean = MEAN[count](cast(padded, "float64"), pool_size=kernel, strides=strides)
    total = R.round(R.multiply(mean, number(size, "float64")))
    return cast(R.trunc(R.divide(total, number(divisor, "float64"))), dtype)


# ---- adaptive pooling


@torch_op(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "_adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool3d",
)
def adaptive_mean(node: FxNode) -> Expr:
    return _adaptive(node, R.mean)


@torch_op("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max(node: FxNode) -> list[Any]:
    """Returns the maxima, and their flat indices in the spatial plane."""
    return [_adaptive(node, R.max), _adaptive_indices(node) if node.is_result_used(1) else None]


def _adaptive_indices(node: FxNode) -> Expr:
    """Returns the flat index of the maximum of each window.

    The last axis is reduced first: of equal maxima, torch selects the first in row-major order.
    """
    count, rank = _axes_of(node), node.rank()
    values, plane = node["self"], node.dims()[-count:]
    indices = reshape_to(index_range(product(plane)), plane)
    indices = node.emit(R.broadcast_to(indices, ShapeExpr(node.dims())))
    for axis in range(rank - 1, rank - count - 1, -1):
        if dims.equal(node.dims()[axis], node.out_dims()[axis]) is True:
            continue
        maxima, positions = [], []
        for start, end in _windows(node, axis):
            window = node.emit(R.strided_slice(values, [axis], (start,), (end,)))
            best = R.argmax(window, axis=axis, keepdims=True)
            best = node.emit(cast(best, "int64"))
            part = R.strided_slice(indices, [axis], (start,), (end,))
            maxima.append(node.emit(R.gather_elements(window, best, axis=axis)))
            positions.append(node.emit(R.gather_elements(part, best, axis=axis)))
        values = node.emit(R.concat(maxima, axis=axis))
        indices = node.emit(R.concat(positions, axis=axis))
    return indices


def _windows(node: FxNode, axis: int) -> list[tuple[Dim, Dim]]:
    """Returns the start and the end of each window of an axis."""
    size, out_size = node.dims()[axis], node.out_dims()[axis]
    if not isinstance(out_size, int):
        node.fail(
            f"output_size: expected a static size, found {dims.text(out_size)}",
            "pass the output size as an int",
        )
    return [
        (dims.floordiv(size * i, out_size), dims.ceildiv(size * (i + 1), out_size))
        for i in range(out_size)
    ]


def _adaptive(node: FxNode, op: Any) -> Expr:
    """Pools each axis to its output size: window i covers floor(i * size / new) to ceil((i + 1) *
    size / new)."""
    count = _axes_of(node)
    x, rank = node["self"], node.rank()
    out_sizes = node.out_dims()[-count:]
    unit_axes = [rank - count + k for k, out_size in enumerate(out_sizes) if out_size == 1]
    if unit_axes:
        x = node.emit(op(x, axis=unit_axes, keepdims=True))
    for k, out_size in enumerate(out_sizes):
        axis = rank - count + k
        size = node.dims_of(x)[axis]
        if out_size != 1 and dims.equal(size, out_size) is not True:
            x = node.emit(_pool_axis(node, x, axis, size, out_size, op))
    return x


def _pool_axis(node: FxNode, x: Expr, axis: int, size: Dim, out_size: Dim, op: Any) -> Expr:
    window_size = dims.exact_quotient(size, out_size)
    if window_size is not None:
        sizes = node.dims_of(x)
        return op(
            reshape_to(x, (*sizes[:axis], out_size, window_size, *sizes[axis + 1 :])),
            axis=[axis + 1],
        )
    if not isinstance(out_size, int):
        return _pool_by_mask(node, x, axis, out_size, op is R.mean)
    windows = []
    for start, end in _windows(node, axis):
        window = R.strided_slice(x, [axis], (start,), (end,))
        windows.append(node.emit(op(window, axis=[axis], keepdims=True)))
    return R.concat(windows, axis=axis)


def _pool_by_mask(node: FxNode, x: Expr, axis: int, out_size: Dim, is_mean: bool) -> Expr:
    """Pools an axis to a symbolic size by a mask of the elements of each window."""
    sizes, dtype = node.dims_of(x), node.dtype_of(x)
    last = len(sizes) - 1
    order = [*[k for k in range(len(sizes)) if k != axis], axis]
    rows = node.emit(reorder_axes(x, order))
    is_inside = _window_mask(node, sizes[axis], out_size)
    if is_mean:
        weight = cast(is_inside, dtype)
        count = R.sum(weight, axis=[1], keepdims=True)
        weight = node.emit(R.permute_dims(node.emit(R.divide(weight, count)), [1, 0]))
        result = R.matmul(rows, weight)
    else:
        lowest = number(-math.inf if is_float(dtype) else np.iinfo(dtype).min, dtype)
        masked = R.where(is_inside, R.expand_dims(rows, [last]), lowest)
        result = R.max(masked, axis=[last + 1])
    return reorder_axes(node.emit(result), [order.index(k) for k in range(len(order))])


def _window_mask(node: FxNode, size: Dim, out_size: Dim) -> Expr:
    """Returns whether each element of an axis is in each window, of shape (out_size, size)."""
    window, one = reshape_to(index_range(out_size), (out_size, 1)), number(1, "int64")
    old, new = size_number(size), size_number(out_size)
    start = R.floor_divide(R.multiply(window, old), new)
    last = R.subtract(R.multiply(R.add(window, one), old), one)
    end = R.floor_divide(last, new)  # the last element of the window
    element = index_range(size)
    after, before = R.greater_equal(element, start), R.less_equal(element, end)
    return node.emit(R.logical_and(after, before))
