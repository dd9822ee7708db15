"""Ops of object detection: regions of interest, valid boxes, suppression of overlapping boxes."""

from __future__ import annotations

import math
from typing import Any, Literal

from structir.ir.dims import dim_min
from structir.ir.expr import Constant
from structir.lazy import lazy_module
from structir.ops.attributes import Ints
from structir.ops.define import op
from structir.ops.examples import Sample, Values, f32
from structir.ops.given import Given, Written
from structir.ops.layouts import check_rank, each, laid_out
from structir.ops.letters import written
from structir.ops.sampling import taps

np = lazy_module("numpy")
Array = Any
REGIONS = Values("float32", ((0, 0.5, 0.5, 4.5, 3.5), (0, 1, 2, 2, 5)))


def regions(given: Given) -> Written:
    """Five numbers for each region: which image, and its two corners."""
    check_rank(given, "data", given["layout"])
    read = laid_out(given, given["layout"], {"N": "n", "C": "c", "H": "[h]", "W": "[w]"})
    made = laid_out(given, given["layout"], {"N": "r", "C": "c", "H": "a", "W": "b"})
    size = each(given, "pooled_size", 2)
    line = f"{written('data', read)}, rois[r, 5] -> {written('out', made)}"
    return Written(line, "a == pooled_size[0], b == pooled_size[1]", "", {"pooled_size": size})


@op(regions, name="vision.roi_align")
def roi_align(
    data: Array,
    rois: Array,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
    mode: Literal["avg", "max"] = "avg",
) -> Array:
    """For each region, the mean or the maximum of samples in a grid of cells."""
    return data


@roi_align.reference
def _(
    data: Array,
    rois: Array,
    pooled_size: tuple[int, ...],
    spatial_scale: float,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Array:
    image = data if layout == "NCHW" else np.moveaxis(data, -1, 1)
    cells = tuple(pooled_size) * (2 // len(pooled_size))
    made = np.zeros((len(rois), image.shape[1], *cells), "float64")
    for k, (batch, *corners) in enumerate(rois.astype("float64")):
        x0, y0, x1, y1 = np.array(corners) * spatial_scale - (0.5 if aligned else 0.0)
        spans = [y1 - y0, x1 - x0]
        spans = spans if aligned else [max(span, 1.0) for span in spans]
        places = [
            _samples(start, span, count, sample_ratio)
            for start, span, count in zip((y0, x0), spans, cells, strict=True)
        ]
        values = _between(image[int(batch)], places[0].reshape(-1), places[1].reshape(-1))
        values = values.reshape(-1, *places[0].shape, *places[1].shape)
        made[k] = values.mean((2, 4)) if mode == "avg" else values.max((2, 4))
    return (made if layout == "NCHW" else np.moveaxis(made, 1, -1)).astype(data.dtype)


def _samples(start: float, span: float, count: int, ratio: int) -> Array:
    """The places of the samples along one axis: a row for each cell."""
    cell = span / count
    number = ratio if ratio > 0 else max(math.ceil(cell), 1)
    return start + cell * (np.arange(count)[:, None] + (np.arange(number) + 0.5) / number)


def _between(image: Array, rows: Array, columns: Array) -> Array:
    """An image at the crossings of rows and columns; 0 more than one element outside."""
    made: Array = 0.0
    inside = [(p >= -1) & (p <= n) for p, n in zip((rows, columns), image.shape[1:], strict=True)]
    places = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), image.shape[1:], strict=True)]
    for row, row_weight in taps(places[0], "linear"):
        for column, weight in taps(places[1], "linear"):
            at = np.minimum(row, image.shape[1] - 1), np.minimum(column, image.shape[2] - 1)
            made = made + image[:, at[0]][:, :, at[1]] * (row_weight[:, None] * weight)
    return made * (inside[0][:, None] & inside[1])


@op(regions, name="vision.roi_pool")
def roi_pool(
    data: Array,
    rois: Array,
    pooled_size: Ints,
    spatial_scale: float,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
) -> Array:
    """For each region, the greatest element of each cell of a grid."""
    return data


@roi_pool.reference
def _(
    data: Array,
    rois: Array,
    pooled_size: tuple[int, ...],
    spatial_scale: float,
    layout: str = "NCHW",
) -> Array:
    image = data if layout == "NCHW" else np.moveaxis(data, -1, 1)
    cells = tuple(pooled_size) * (2 // len(pooled_size))
    made = np.zeros((len(rois), image.shape[1], *cells), data.dtype)
    for k, (batch, *corners) in enumerate(rois.astype("float64")):
        x0, y0, x1, y1 = np.floor(np.array(corners) * spatial_scale + 0.5).astype(int)
        rows, columns = (
            _cells(first, last, count, length)
            for first, last, count, length in zip(
                (y0, x0), (y1, x1), cells, image.shape[2:], strict=True
            )
        )
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                part = image[int(batch), :, top:bottom, left:right]
                if part.shape[1] and part.shape[2]:
                    made[k, :, i, j] = part.max((1, 2))
    return made if layout == "NCHW" else np.moveaxis(made, 1, -1)


def _cells(first: int, last: int, count: int, length: int) -> list[tuple[int, int]]:
    """Where each cell along one axis begins and ends, inside the image."""
    size = max(last - first + 1, 1) / count
    bounds = [
        (math.floor(k * size) + first, math.ceil((k + 1) * size) + first) for k in range(count)
    ]
    return [(min(max(a, 0), length), min(max(b, 0), length)) for a, b in bounds]


@op(
    "data[b, [n], [k]] -> count[b] @ int32, boxes[b, [n], k], positions[b, [n]] @ int32",
    name="vision.get_valid_counts",
)
def get_valid_counts(
    data: Array, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> Any:
    """How many boxes score above the threshold, these boxes first, and where they were; -1 for the
    rest."""
    return data


@get_valid_counts.reference
def _(data: Array, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1) -> Any:
    boxes, positions = np.full_like(data, -1), np.full(data.shape[:2], -1, "int32")
    counts = np.zeros(len(data), "int32")
    for k, rows in enumerate(data):
        valid = rows[:, score_index] > score_threshold
        valid &= (rows[:, id_index] >= 0) if id_index >= 0 else True
        found = np.flatnonzero(valid)
        counts[k] = len(found)
        boxes[k, : len(found)], positions[k, : len(found)] = rows[found], found
    return counts, boxes, positions


def suppressed(given: Given) -> Written:
    """A known limit bounds the number of boxes that can be picked."""
    scores, limit = given.dims("scores"), _constant(given, "max_output_boxes_per_class")
    if limit is None or scores is None or len(scores) != 3:
        return Written(_SUPPRESSED.format(count="_"), "", "", {"picked": 0})
    picked = scores[0] * scores[1] * dim_min(limit, scores[2])
    return Written(_SUPPRESSED.format(count="p"), "p == picked", "", {"picked": picked})


_SUPPRESSED = (
    "boxes[b, n, 4], scores[b, c, n], max_output_boxes_per_class[] @ int64,"
    " iou_threshold[], score_threshold[] -> picks[{count}, 3] @ int64, total[1] @ int64"
)


def _constant(given: Given, name: str) -> int | None:
    position = list(given.operands).index(name)
    arg = given.args[position] if position < len(given.args) else None
    return int(arg.data.item()) if isinstance(arg, Constant) and arg.data.size == 1 else None


@op(suppressed, name="vision.all_class_non_max_suppression", reads_sizes=True, reads_values=True)
def all_class_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    output_format: Literal["onnx"] = "onnx",
) -> Any:
    """The best boxes of each class that do not overlap too much: image, class and box of each; how
    many.

    With a limit known at compile time the picks are as many as there can be, the rest of them 0.
    """
    return boxes


@all_class_non_max_suppression.reference
def _(
    boxes: Array,
    scores: Array,
    limit: Array,
    iou_threshold: Array,
    score_threshold: Array,
    output_format: str = "onnx",
) -> Any:
    picks: list[tuple[int, int, int]] = []
    for b, c in np.ndindex(scores.shape[:2]):
        own = scores[b, c]
        order = [i for i in np.argsort(-own, kind="stable") if own[i] > score_threshold]
        kept: list[int] = []
        for i in order:
            if len(kept) >= int(limit):
                break
            if all(_overlap(boxes[b, i], boxes[b, j]) <= iou_threshold for j in kept):
                kept.append(int(i))
        picks += [(b, c, i) for i in kept]
    room = scores.shape[0] * scores.shape[1] * min(int(limit), scores.shape[2])
    made = np.zeros((room, 3), "int64")
    made[: len(picks)] = np.array(picks, "int64").reshape(-1, 3)
    return made, np.array([len(picks)], "int64")


def _overlap(a: Array, b: Array) -> float:
    """The shared area of two boxes over that of both together."""
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = [float(np.prod(np.abs(box[2:] - box[:2]))) for box in (a, b)]
    return shared / max(areas[0] + areas[1] - shared, 1e-12)


FROM_DATA = "which elements a region reads is worked out from data by a routine of its own"
roi_align.undifferentiable(FROM_DATA)
roi_pool.undifferentiable(FROM_DATA)
get_valid_counts.undifferentiable("boxes are picked and moved by their scores")
roi_align.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(2, 2), spatial_scale=1.0)
roi_align.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(3, 2), spatial_scale=0.5, mode="max")
roi_pool.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(2, 2), spatial_scale=1.0)
get_valid_counts.example(f32[1, 5, 6], score_threshold=0.25)
all_class_non_max_suppression.example(
    Sample("float32", (1, 4, 4), fractions=True),
    Sample("float32", (1, 2, 4), fractions=True),
    Values("int64", 2),
    Values("float32", 0.5),
    Values("float32", 0.25),
)
