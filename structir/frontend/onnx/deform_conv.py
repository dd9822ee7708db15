"""A kernel that samples an image at the offsets of a deformable convolution."""

from __future__ import annotations

from functools import cache

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

SOURCE = """\
@I.kernel
def deformed_columns(
    x: R.Tensor(("batch", "channels", "height", "width"), "{dtype}"),
    offset: R.Tensor(("batch", "groups", "tall", "wide", 2, "rows", "columns"), "{dtype}"),
    mask: R.Tensor(("batch", "groups", "tall", "wide", "rows", "columns"), "{dtype}"),
    out: R.Tensor(("batch", "channels", "tall", "wide", "rows", "columns"), "{dtype}"),
):
    for n in range(batch):
        for c in range(channels):
            group = c * groups // channels
            for p in range(tall):
                for q in range(wide):
                    for i in range(rows):
                        for j in range(columns):
                            y = T.{dtype}(i * {down} + p * {dy} - {top})
                            z = T.{dtype}(j * {along} + q * {dx} - {left})
                            y = y + offset[n, group, p, q, 0, i, j]
                            z = z + offset[n, group, p, q, 1, i, j]
                            row = T.int64(T.floor(y))
                            column = T.int64(T.floor(z))
                            low = y - T.floor(y)
                            high = z - T.floor(z)
                            total = low - low
                            for down in range(2):
                                for along in range(2):
                                    r = row + down
                                    k = column + along
                                    if r >= 0 and r < height and k >= 0 and k < width:
                                        part = x[n, c, r, k]
                                        if down == 0:
                                            part = part * (1.0 - low)
                                        else:
                                            part = part * low
                                        if along == 0:
                                            part = part * (1.0 - high)
                                        else:
                                            part = part * high
                                        total = total + part
                            out[n, c, p, q, i, j] = total * mask[n, group, p, q, i, j]
"""


@cache
def deformed_kernel(dtype: str, steps: tuple[int, ...]) -> Kernel:
    """Returns the kernel (image, offsets, mask) -> samples; `steps` are the strides, the dilations,
    and the padding at the top and left."""
    names = ("down", "along", "dy", "dx", "top", "left")
    text = SOURCE.format(dtype=dtype, **dict(zip(names, steps, strict=True)))
    kernel = parse(text, "deformed_columns.py").functions["deformed_columns"]
    assert isinstance(kernel, Kernel)
    return kernel
