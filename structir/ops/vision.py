"""Ops of object detection: regions of interest, valid boxes, non-maximum suppression."""

from __future__ import annotations

import math
from typing import Any, Literal

from structir.ir.dims import dim_min
from structir.ir.expr import Constant
from structir.lazy import lazy_module
from structir.opdef.attributes import Ints
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import ExactValues, Sample, f32
from structir.opdef.index_vars import access_text
from structir.opdef.interpolation import taps
from structir.opdef.layouts import check_rank, each, in_layout

np = lazy_module("numpy")
Array = Any
REGIONS = ExactValues("float32", ((0, 0.5, 0.5, 4.5, 3.5), (0, 1, 2, 2, 5)))


def regions(given: CallView) -> ResolvedSignature:
    """Returns the signature of regions: an image index and two corners each."""
    check_rank(given, "data", given["layout"])
    read = in_layout(given, given["layout"], {"N": "[n]", "C": "c", "H": "[h]", "W": "[w]"})
    made = in_layout(given, given["layout"], {"N": "r", "C": "c", "H": "[a]", "W": "[b]"})
    size = each(given, "pooled_size", 2)
    line = f"{access_text('data', read)}, rois[r, [q]] -> {access_text('out', made)}"
    numbers = {"pooled_size": size, "mean": given.attributes.get("mode") == "avg"}
    return ResolvedSignature(line, "q == 5, a == pooled_size[0], b == pooled_size[1]", "", numbers)


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
    """Computes the mean or maximum of interpolated samples per cell of each region."""
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
    """Returns the sample coordinates along one axis, a row per cell."""
    cell = span / count
    number = ratio if ratio > 0 else max(math.ceil(cell), 1)
    return start + cell * (np.arange(count)[:, None] + (np.arange(number) + 0.5) / number)


def _between(image: Array, rows: Array, columns: Array) -> Array:
    """Interpolates an image at a grid of coordinates; 0 more than one element outside."""
    made: Array = 0.0
    inside = [(p >= -1) & (p <= n) for p, n in zip((rows, columns), image.shape[1:], strict=True)]
    places = [np.clip(p, 0, n - 1) for p, n in zip((rows, columns), image.shape[1:], strict=True)]
    for row, row_weight in taps(places[0], "linear"):
        for column, weight in taps(places[1], "linear"):
            at = np.minimum(row, image.shape[1] - 1), np.minimum(column, image.shape[2] - 1)
            made = made + image[:, at[0]][:, :, at[1]] * (row_weight[:, None] * weight)
    return made * (inside[0][:, None] & inside[1])


@roi_align.kernel("cpu")
def _(
    data: Array,
    rois: Array,
    out: Array,
    spatial_scale: float,
    sample_ratio: int,
    aligned: bool,
    mean: bool,
) -> None:
    image = data[image_of(rois[0], data.shape[0])]
    shift, least = (0.5, -np.inf) if aligned else (0.0, 1.0)
    top, left = rois[2] * spatial_scale - shift, rois[1] * spatial_scale - shift
    height = max(rois[4] * spatial_scale - shift - top, least) / out.shape[0]
    width = max(rois[3] * spatial_scale - shift - left, least) / out.shape[1]
    rows = sample_ratio if sample_ratio > 0 else max(math.ceil(height), 1)
    columns = sample_ratio if sample_ratio > 0 else max(math.ceil(width), 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total, most = 0.0, -np.inf
            for p in range(rows):
                for q in range(columns):
                    value = between(
                        image,
                        top + height * (i + (p + 0.5) / rows),
                        left + width * (j + (q + 0.5) / columns),
                    )
                    total, most = total + value, max(most, value)
            out[i, j] = total / (rows * columns) if mean else most


def image_of(number: float, count: int) -> int:
    """Returns the image index of a region."""
    if not -count <= number < count:
        raise IndexError("a region is in no image")
    return int(number)


def between(image: Array, row: float, column: float) -> float:
    """Interpolates an image; 0 more than one element outside."""
    height, width = image.shape
    if row < -1 or row > height or column < -1 or column > width:
        return 0.0
    row, column = min(max(row, 0.0), height - 1.0), min(max(column, 0.0), width - 1.0)
    top, left = int(row), int(column)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = row - top, column - left
    above = image[top, left] * (1 - along) + image[top, right] * along
    below = image[bottom, left] * (1 - along) + image[bottom, right] * along
    value: float = above * (1 - down) + below * down
    return value


@op(regions, name="vision.roi_pool")
def roi_pool(
    data: Array,
    rois: Array,
    pooled_size: Ints,
    spatial_scale: float,
    layout: Literal["NCHW", "NHWC"] = "NCHW",
) -> Array:
    """Computes the maximum of each cell of each region."""
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
    """Returns the bounds of each cell along one axis, clamped to the image."""
    size = max(last - first + 1, 1) / count
    bounds = [
        (math.floor(k * size) + first, math.ceil((k + 1) * size) + first) for k in range(count)
    ]
    return [(min(max(a, 0), length), min(max(b, 0), length)) for a, b in bounds]


@roi_pool.kernel("cpu")
def _(data: Array, rois: Array, out: Array, spatial_scale: float) -> None:
    image = data[image_of(rois[0], data.shape[0])]
    left, top = rounded(rois[1] * spatial_scale), rounded(rois[2] * spatial_scale)
    right, bottom = rounded(rois[3] * spatial_scale), rounded(rois[4] * spatial_scale)
    for i in range(out.shape[0]):
        first, last = cell(i, top, bottom, out.shape[0], image.shape[0])
        for j in range(out.shape[1]):
            start, end = cell(j, left, right, out.shape[1], image.shape[1])
            out[i, j] = 0
            if first < last and start < end:
                out[i, j] = image[first:last, start:end].max()


def rounded(place: float) -> int:
    """Returns the nearest element."""
    return math.floor(place + 0.5)


def cell(k: int, first: int, last: int, count: int, length: int) -> tuple[int, int]:
    """Returns the bounds of one cell along an axis, clamped to the image."""
    size = max(last - first + 1, 1) / count
    start, end = math.floor(k * size) + first, math.ceil((k + 1) * size) + first
    return min(max(start, 0), length), min(max(end, 0), length)


@op(
    "data[b, [n], [k]] @ F -> count[b] @ int32, boxes[b, [n], k] @ F, positions[b, [n]] @ int32",
    name="vision.get_valid_counts",
    where="score_index >= 0, score_index < k, id_index < k",
)
def get_valid_counts(
    data: Array, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> Any:
    """Moves boxes with a score above the threshold first, with counts and positions.

    The remaining entries are -1.
    """
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


@get_valid_counts.kernel("cpu")
def _(
    data: Array,
    count: Array,
    boxes: Array,
    positions: Array,
    score_threshold: float,
    id_index: int,
    score_index: int,
) -> None:
    boxes[:] = -1
    positions[:] = -1
    found = 0
    for k in range(data.shape[0]):
        known = id_index < 0 or data[k, id_index] >= 0
        if data[k, score_index] > score_threshold and known:
            for j in range(data.shape[1]):
                boxes[found, j] = data[k, j]
            positions[found] = k
            found += 1
    count[0] = found


def suppressed(given: CallView) -> ResolvedSignature:
    """Returns the signature; a static limit bounds the number of selected boxes."""
    scores, limit = given.dims("scores"), _constant(given, "max_output_boxes_per_class")
    if limit is None or scores is None or len(scores) != 3:
        return ResolvedSignature(_SUPPRESSED.format(count="_"), "", "", {"picked": 0})
    picked = scores[0] * scores[1] * dim_min(limit, scores[2])
    return ResolvedSignature(_SUPPRESSED.format(count="p"), "p == picked", "", {"picked": picked})


_SUPPRESSED = (
    "boxes[b, n, 4], scores[b, c, n], max_output_boxes_per_class[] @ int64,"
    " iou_threshold[], score_threshold[] -> picks[{count}, 3] @ int64, total[1] @ int64"
)


def _constant(given: CallView, name: str) -> int | None:
    position = list(given.operands).index(name)
    arg = given.args[position] if position < len(given.args) else None
    if not isinstance(arg, Constant) or arg.data.size != 1 or arg.data.dtype.kind not in "iu":
        return None
    return int(arg.data.item())


@op(suppressed, name="vision.all_class_non_max_suppression", reads_sizes=True, reads_values=True)
def all_class_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    output_format: Literal["onnx"] = "onnx",
) -> Any:
    """Selects the best boxes per class that do not overlap: image, class and box, and their number.

    With a static limit the result has the maximal size, padded with 0.
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
    """Computes the intersection over union of two boxes."""
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = [float(np.prod(np.abs(box[2:] - box[:2]))) for box in (a, b)]
    return shared / max(areas[0] + areas[1] - shared, 1e-12)


FROM_DATA = "which elements a region reads is worked out from data by a routine of its own"
roi_align.non_differentiable(FROM_DATA)
roi_pool.non_differentiable(FROM_DATA)
get_valid_counts.non_differentiable("boxes are picked and moved by their scores")
roi_align.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(2, 2), spatial_scale=1.0)
roi_align.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(3, 2), spatial_scale=0.5, mode="max")
roi_pool.example(f32[1, 2, 6, 6], REGIONS, pooled_size=(2, 2), spatial_scale=1.0)
get_valid_counts.example(f32[1, 5, 6], score_threshold=0.25)
all_class_non_max_suppression.example(
    Sample("float32", (1, 4, 4), fractions=True),
    Sample("float32", (1, 2, 4), fractions=True),
    ExactValues("int64", 2),
    ExactValues("float32", 0.5),
    ExactValues("float32", 0.25),
)
