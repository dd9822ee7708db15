"""Mappings of im2col and col2im."""

from __future__ import annotations

import math

import attrs
import numpy as np

from structir.frontend.scalars import constant, index_range, number, reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.padding import emit_pad
from structir.frontend.torch.registry import torch_op
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@attrs.frozen
class ColumnWindows:
    """The parameters of a sliding window over two axes."""

    kernel: list[int]
    dilation: list[int]
    padding: list[int]
    stride: list[int]

    def moves(self, sizes: tuple[Dim, ...]) -> list[Dim]:
        """Returns the number of window positions along each axis."""
        return [
            dims.floordiv(n + 2 * p - d * (k - 1) - 1, s) + 1
            for n, k, d, p, s in zip(
                sizes, self.kernel, self.dilation, self.padding, self.stride, strict=True
            )
        ]


def _windows(node: FxNode) -> ColumnWindows:
    names = ("kernel_size", "dilation", "padding", "stride")
    return ColumnWindows(*[list(node.ints(name)) for name in names])


def _window_indices(axis: int, windows: ColumnWindows, positions: Dim) -> Expr:
    """Returns the index along an axis of each window element at each window position."""
    offsets = constant(np.arange(windows.kernel[axis])[:, None] * windows.dilation[axis])
    starts = R.multiply(
        reshape_to(index_range(positions), (1, positions)), constant(windows.stride[axis])
    )
    return R.add(offsets, starts)


@torch_op("im2col")
def to_columns(node: FxNode) -> Expr:
    windows, x = _windows(node), node["self"]
    *leading, channels, rows, columns = node.dims()
    positions = windows.moves((rows, columns))
    padding = [0] * (len(leading) + 1) + windows.padding
    x = node.emit(emit_pad(node, x, padding, padding))
    first = len(leading) + 1
    x = R.take(x, _window_indices(0, windows, positions[0]), axis=first)
    x = R.take(x, _window_indices(1, windows, positions[1]), axis=first + 2)
    order = [*range(first), first, first + 2, first + 1, first + 3]
    kernel_count = math.prod(windows.kernel)
    return reshape_to(
        R.permute_dims(x, order), (*leading, channels * kernel_count, positions[0] * positions[1])
    )


@torch_op("col2im")
def to_image(node: FxNode) -> Expr:
    windows, sizes = _windows(node), node.sizes("output_size")
    *leading, _, count = node.dims()
    positions, kernel_count = windows.moves(sizes), math.prod(windows.kernel)
    padded = [n + 2 * p for n, p in zip(sizes, windows.padding, strict=True)]
    rows, columns = (_window_indices(k, windows, positions[k]) for k in range(2))
    rows = reshape_to(rows, (windows.kernel[0], 1, positions[0], 1))
    columns = reshape_to(columns, (1, windows.kernel[1], 1, positions[1]))
    flat = R.add(R.multiply(rows, R.full((), R.prim_value(padded[1]), dtype="int64")), columns)
    channels = node.out_dims()[-3]
    columns_shape = (*leading, channels, kernel_count * count)
    indices = R.broadcast_to(reshape_to(flat, (kernel_count * count,)), columns_shape)
    zeros = R.full(ShapeExpr((*leading, channels, padded[0] * padded[1])), number(0, node.dtype()))
    sums = R.scatter_elements(
        zeros,
        indices,
        reshape_to(node["self"], columns_shape),
        axis=len(leading) + 1,
        reduction="add",
    )
    padded_image = reshape_to(sums, (*leading, channels, *padded))
    trimmed = [0] * (len(leading) + 1) + [-p for p in windows.padding]
    return emit_pad(node, padded_image, trimmed, trimmed)
