"""A kernel for RoiAlign in mode `max`."""

from __future__ import annotations

from functools import cache

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

SOURCE = """\
@I.kernel
def roi_maximum(
    image: R.Tensor(("batch", "channels", "height", "width"), "{dtype}"),
    rois: R.Tensor(("count", 4), "{dtype}"),
    batch_indices: R.Tensor(("count",), "int64"),
    out: R.Tensor(("count", "channels", "out_height", "out_width"), "{dtype}"),
):
    for k in range(count):
        item = batch_indices[k]
        left = rois[k, 0] * {scale} - {shift}
        top = rois[k, 1] * {scale} - {shift}
        full_width = max(rois[k, 2] * {scale} - {shift} - left, {least})
        full_height = max(rois[k, 3] * {scale} - {shift} - top, {least})
        cell_height = full_height / T.{dtype}(out_height)
        cell_width = full_width / T.{dtype}(out_width)
        rows = {samples}
        columns = {samples}
        if {samples} == 0:
            rows = T.int64(T.ceil(cell_height))
            columns = T.int64(T.ceil(cell_width))
        for c in range(channels):
            for i in range(out_height):
                for j in range(out_width):
                    best = cell_height - cell_height
                    for p in range(rows):
                        for q in range(columns):
                            down = (T.{dtype}(p) + 0.5) / T.{dtype}(rows)
                            along = (T.{dtype}(q) + 0.5) / T.{dtype}(columns)
                            y = top + cell_height * (T.{dtype}(i) + down)
                            x = left + cell_width * (T.{dtype}(j) + along)
                            value = cell_height - cell_height
                            in_rows = y >= -1.0 and y <= T.{dtype}(height)
                            if in_rows and x >= -1.0 and x <= T.{dtype}(width):
                                y = min(max(y, 0.0), T.{dtype}(height - 1))
                                x = min(max(x, 0.0), T.{dtype}(width - 1))
                                row = T.int64(T.floor(y))
                                column = T.int64(T.floor(x))
                                next_row = min(row + 1, height - 1)
                                next_column = min(column + 1, width - 1)
                                down = y - T.floor(y)
                                along = x - T.floor(x)
                                value = max(
                                    max(
                                        image[item, c, row, column] * (1.0 - down) * (1.0 - along),
                                        image[item, c, row, next_column] * (1.0 - down) * along,
                                    ),
                                    max(
                                        image[item, c, next_row, column] * down * (1.0 - along),
                                        image[item, c, next_row, next_column] * down * along,
                                    ),
                                )
                            if p + q == 0:
                                best = value
                            best = max(best, value)
                    out[k, c, i, j] = best
"""


@cache
def roi_maximum_kernel(dtype: str, scale: float, samples: int, aligned: bool) -> Kernel:
    """Returns the kernel (image, regions, images of the regions) -> the greatest weighted corner
    of the samples of each cell, as ONNX defines the mode `max`."""
    shift, least = (0.5, -3.0e38) if aligned else (0.0, 1.0)
    source = SOURCE.format(dtype=dtype, scale=scale, samples=samples, shift=shift, least=least)
    kernel = parse(source, "roi_maximum.py").functions["roi_maximum"]
    assert isinstance(kernel, Kernel)
    return kernel
