"""Windows of an image as columns of a matrix, and columns added up to an image."""

from __future__ import annotations

import math

import attrs
import numpy as np

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.padding import emit_pad
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import constant, index_range, number, reshape_to
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@attrs.frozen
class ColumnWindows:
    """A window that moves over two axes."""

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


def _places(axis: int, windows: ColumnWindows, moves: Dim) -> Expr:
    """Returns the index along an axis of each window element at each window position."""
    inner = constant(np.arange(windows.kernel[axis])[:, None] * windows.dilation[axis])
    outer = R.multiply(reshape_to(index_range(moves), (1, moves)), constant(windows.stride[axis]))
    return R.add(inner, outer)


@torch_op("im2col")
def to_columns(node: FxNode) -> Expr:
    windows, x = _windows(node), node["self"]
    *before, channels, rows, columns = node.dims()
    moves = windows.moves((rows, columns))
    around = [0] * (len(before) + 1) + windows.padding
    x = node.emit(emit_pad(node, x, around, around))
    first = len(before) + 1
    x = R.take(x, _places(0, windows, moves[0]), axis=first)
    x = R.take(x, _places(1, windows, moves[1]), axis=first + 2)
    order = [*range(first), first, first + 2, first + 1, first + 3]
    many = math.prod(windows.kernel)
    return reshape_to(R.permute_dims(x, order), (*before, channels * many, moves[0] * moves[1]))


@torch_op("col2im")
def to_image(node: FxNode) -> Expr:
    windows, sizes = _windows(node), node.sizes("output_size")
    *before, _, count = node.dims()
    moves, many = windows.moves(sizes), math.prod(windows.kernel)
    wide = [n + 2 * p for n, p in zip(sizes, windows.padding, strict=True)]
    rows, columns = (_places(k, windows, moves[k]) for k in range(2))
    rows = reshape_to(rows, (windows.kernel[0], 1, moves[0], 1))
    columns = reshape_to(columns, (1, windows.kernel[1], 1, moves[1]))
    flat = R.add(R.multiply(rows, R.full((), R.prim_value(wide[1]), dtype="int64")), columns)
    channels = node.out_dims()[-3]
    spread = (*before, channels, many * count)
    at = R.broadcast_to(reshape_to(flat, (many * count,)), spread)
    zeros = R.full(ShapeExpr((*before, channels, wide[0] * wide[1])), number(0, node.dtype()))
    put = R.scatter_elements(
        zeros, at, reshape_to(node["self"], spread), axis=len(before) + 1, reduction="add"
    )
    whole = reshape_to(put, (*before, channels, *wide))
    trimmed = [0] * (len(before) + 1) + [-p for p in windows.padding]
    return emit_pad(node, whole, trimmed, trimmed)
