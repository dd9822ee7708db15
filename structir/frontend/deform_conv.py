"""Deformable convolution: a kernel samples the image at the offsets, then a grouped product."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs

from structir.frontend.builder import NodeBuilder
from structir.frontend.scalars import dims_of, tensor_info
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.ir.kernel import Kernel
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.parser import parse
from structir.script import R

SOURCE = """\
@I.kernel
def deformed_columns(
    image: R.Tensor(("batch", "channels", "height", "width"), "{dtype}"),
    offset: R.Tensor(
        ("batch", "groups", "kernel_height", "kernel_width", 2, "out_height", "out_width"),
        "{dtype}",
    ),
    mask: R.Tensor(
        ("batch", "groups", "kernel_height", "kernel_width", "out_height", "out_width"), "{dtype}"
    ),
    out: R.Tensor(
        ("batch", "channels", "kernel_height", "kernel_width", "out_height", "out_width"), "{dtype}"
    ),
):
    for n in range(batch):
        for c in range(channels):
            group = c * groups // channels
            for p in range(kernel_height):
                for q in range(kernel_width):
                    for i in range(out_height):
                        for j in range(out_width):
                            y = T.{dtype}(i * {stride_y} + p * {dilation_y} - {pad_top})
                            x = T.{dtype}(j * {stride_x} + q * {dilation_x} - {pad_left})
                            y = y + offset[n, group, p, q, 0, i, j]
                            x = x + offset[n, group, p, q, 1, i, j]
                            first_row = T.int64(T.floor(y))
                            first_column = T.int64(T.floor(x))
                            row_fraction = y - T.floor(y)
                            column_fraction = x - T.floor(x)
                            total = row_fraction - row_fraction
                            for dr in range(2):
                                for dc in range(2):
                                    row = first_row + dr
                                    column = first_column + dc
                                    if row >= 0 and row < height and column >= 0 and column < width:
                                        value = image[n, c, row, column]
                                        if dr == 0:
                                            value = value * (1.0 - row_fraction)
                                        else:
                                            value = value * row_fraction
                                        if dc == 0:
                                            value = value * (1.0 - column_fraction)
                                        else:
                                            value = value * column_fraction
                                        total = total + value
                            out[n, c, p, q, i, j] = total * mask[n, group, p, q, i, j]
"""


@attrs.frozen
class DeformableConvolution:
    """The geometry of a deformable convolution of images."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]  # at the top and left
    groups: Dim
    offset_groups: Dim

    def build(
        self, builder: NodeBuilder, image: Expr, weight: Expr, offset: Expr, mask: Expr | None
    ) -> Expr:
        """Returns the convolution of images (n, c, h, w) at offsets, scaled by an optional mask."""
        dtype: Any = tensor_info(image).dtype
        (batch, channels, *_), (outputs, inner, *extents) = dims_of(image), dims_of(weight)
        out_sizes = dims_of(offset)[2:]
        shape = (batch, self.offset_groups, *extents)
        offset = builder.emit(R.reshape(offset, ShapeExpr((*shape, 2, *out_sizes))))
        if mask is None:
            mask = R.ones(ShapeExpr((*shape, *out_sizes)), dtype)
        mask = builder.emit(R.reshape(mask, ShapeExpr((*shape, *out_sizes))))
        kernel = builder.kernel(
            deformed_kernel(dtype, (*self.strides, *self.dilations, *self.padding))
        )
        info = TensorStructInfo((batch, channels, *extents, *out_sizes), dtype)
        samples = builder.emit(R.call_kernel(kernel, (image, offset, mask), out_sinfo=info))
        terms, positions = inner * extents[0] * extents[1], out_sizes[0] * out_sizes[1]
        columns = R.reshape(samples, ShapeExpr((batch, self.groups, terms, positions)))
        weight = R.reshape(weight, ShapeExpr((1, self.groups, outputs // self.groups, terms)))
        return R.reshape(R.matmul(weight, columns), ShapeExpr((batch, outputs, *out_sizes)))


@cache
def deformed_kernel(dtype: str, geometry: tuple[int, ...]) -> Kernel:
    """Returns the kernel (image, offsets, mask) -> samples. `geometry` is the strides, the
    dilations, and the padding at the top and left."""
    names = ("stride_y", "stride_x", "dilation_y", "dilation_x", "pad_top", "pad_left")
    source = SOURCE.format(dtype=dtype, **dict(zip(names, geometry, strict=True)))
    kernel = parse(source, "deformed_columns.py").functions["deformed_columns"]
    assert isinstance(kernel, Kernel)
    return kernel
