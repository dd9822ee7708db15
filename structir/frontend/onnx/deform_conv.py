"""A kernel that samples an image at the offsets of a deformable convolution."""

from __future__ import annotations

from functools import cache

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

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


@cache
def deformed_kernel(dtype: str, geometry: tuple[int, ...]) -> Kernel:
    """Returns the kernel (image, offsets, mask) -> samples; `steps` are the strides, the dilations,
    and the padding at the top and left."""
    names = ("stride_y", "stride_x", "dilation_y", "dilation_x", "pad_top", "pad_left")
    source = SOURCE.format(dtype=dtype, **dict(zip(names, geometry, strict=True)))
    kernel = parse(source, "deformed_columns.py").functions["deformed_columns"]
    assert isinstance(kernel, Kernel)
    return kernel
