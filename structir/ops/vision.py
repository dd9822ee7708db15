"""Ops of object detection: regions of interest, valid boxes, non-maximum suppression."""

from __future__ import annotations

import itertools
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
NO_IMAGE = "rois: expected image indices of the batch, found one out of range"
REGIONS = ExactValues("float32", ((0, 0.5, 0.5, 4.5, 3.5), (0, 1, 2, 2, 5)))


def roi_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature of regions: an image index and two corners each."""
    check_rank(call, "data", call["layout"])
    in_axes = in_layout(call, call["layout"], {"N": "[n]", "C": "c", "H": "[h]", "W": "[w]"})
    out_axes = in_layout(call, call["layout"], {"N": "r", "C": "c", "H": "[a]", "W": "[b]"})
    size = each(call, "pooled_size", 2)
    signature = f"{access_text('data', in_axes)}, rois[r, [q]] -> {access_text('out', out_axes)}"
    attributes = {"pooled_size": size, "mean": call.attributes.get("mode") == "avg"}
    return ResolvedSignature(
        signature, "q == 5, a == pooled_size[0], b == pooled_size[1]", "", attributes
    )


@op(roi_signature, name="vision.roi_align")
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
    result = np.zeros((len(rois), image.shape[1], *cells), "float64")
    for k, (batch, *corners) in enumerate(rois.astype("float64")):
        x0, y0, x1, y1 = np.array(corners) * spatial_scale - (0.5 if aligned else 0.0)
        spans = [y1 - y0, x1 - x0]
        spans = spans if aligned else [max(span, 1.0) for span in spans]
        coordinates = [
            _samples(start, span, count, sample_ratio)
            for start, span, count in zip((y0, x0), spans, cells, strict=True)
        ]
        values = _interpolate_grid(
            image[image_index(batch, len(image))],
            coordinates[0].reshape(-1),
            coordinates[1].reshape(-1),
        )
        values = values.reshape(-1, *coordinates[0].shape, *coordinates[1].shape)
        result[k] = values.mean((2, 4)) if mode == "avg" else values.max((2, 4))
    return (result if layout == "NCHW" else np.moveaxis(result, 1, -1)).astype(data.dtype)


def _samples(start: float, span: float, count: int, ratio: int) -> Array:
    """Returns the sample coordinates along one axis, a row per cell."""
    width = span / count
    sample_count = ratio if ratio > 0 else max(math.ceil(width), 1)
    return start + width * (
        np.arange(count)[:, None] + (np.arange(sample_count) + 0.5) / sample_count
    )


def _interpolate_grid(image: Array, rows: Array, columns: Array) -> Array:
    """Interpolates an image at a grid of coordinates; 0 more than one element outside."""
    result: Array = 0.0
    inside = [(p >= -1) & (p <= n) for p, n in zip((rows, columns), image.shape[1:], strict=True)]
    coordinates = [
        np.clip(p, 0, n - 1) for p, n in zip((rows, columns), image.shape[1:], strict=True)
    ]
    for row, row_weight in taps(coordinates[0], "linear"):
        for column, weight in taps(coordinates[1], "linear"):
            pixels = np.minimum(row, image.shape[1] - 1), np.minimum(column, image.shape[2] - 1)
            result = result + image[:, pixels[0]][:, :, pixels[1]] * (row_weight[:, None] * weight)
    return result * (inside[0][:, None] & inside[1])


roi_align.rejects_values(NO_IMAGE)


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
    image = data[image_index(rois[0], data.shape[0])]
    shift, least = (0.5, -np.inf) if aligned else (0.0, 1.0)
    top, left = rois[2] * spatial_scale - shift, rois[1] * spatial_scale - shift
    height = max(rois[4] * spatial_scale - shift - top, least) / out.shape[0]
    width = max(rois[3] * spatial_scale - shift - left, least) / out.shape[1]
    rows = sample_ratio if sample_ratio > 0 else max(math.ceil(height), 1)
    columns = sample_ratio if sample_ratio > 0 else max(math.ceil(width), 1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total, maximum = 0.0, -np.inf
            for p in range(rows):
                for q in range(columns):
                    value = interpolate(
                        image,
                        top + height * (i + (p + 0.5) / rows),
                        left + width * (j + (q + 0.5) / columns),
                    )
                    total, maximum = total + value, max(maximum, value)
            out[i, j] = total / (rows * columns) if mean else maximum


def image_index(number: float, count: int) -> int:
    """Returns the image index of a region."""
    if not -count <= number < count:
        raise IndexError(NO_IMAGE)
    return int(number)


def interpolate(image: Array, row: float, column: float) -> float:
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


@op(roi_signature, name="vision.roi_pool")
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
    result = np.zeros((len(rois), image.shape[1], *cells), data.dtype)
    scalar = data.dtype.type
    for k, (batch, corners) in enumerate(zip(rois[:, 0], rois[:, 1:], strict=True)):
        x0, y0, x1, y1 = _round_half_away(corners * scalar(spatial_scale))
        rows, columns = (
            _all_cell_bounds(first, last, scalar(count), length)
            for first, last, count, length in zip(
                (y0, x0), (y1, x1), cells, image.shape[2:], strict=True
            )
        )
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                region = image[image_index(batch, len(image)), :, top:bottom, left:right]
                if region.shape[1] and region.shape[2]:
                    result[k, :, i, j] = region.max((1, 2))
    return result if layout == "NCHW" else np.moveaxis(result, 1, -1)


def _round_half_away(coordinates: Array) -> Array:
    """Rounds to the nearest elements, halves away from 0."""
    return (np.sign(coordinates) * np.floor(np.abs(coordinates) + 0.5)).astype(int)


def _all_cell_bounds(first: int, last: int, count: Any, length: int) -> list[tuple[int, int]]:
    """Returns the bounds of each cell along one axis, clamped to the image.

    The dtype of `count` is the dtype of the bounds before rounding.
    """
    size = type(count)(max(last - first + 1, 1)) / count
    cells = np.arange(count + 1, dtype=type(count)) * size
    bounds = [
        (math.floor(start) + first, math.ceil(end) + first)
        for start, end in itertools.pairwise(cells)
    ]
    return [(min(max(a, 0), length), min(max(b, 0), length)) for a, b in bounds]


roi_pool.rejects_values(NO_IMAGE)


@roi_pool.kernel("cpu")
def _(data: Array, rois: Array, out: Array, spatial_scale: float) -> None:
    image = data[image_index(rois[0], data.shape[0])]
    scale = rois.dtype.type(spatial_scale)
    left, top = round_half_away(rois[1] * scale), round_half_away(rois[2] * scale)
    right, bottom = round_half_away(rois[3] * scale), round_half_away(rois[4] * scale)
    for i in range(out.shape[0]):
        first, last = cell_bounds(i, top, bottom, out.shape[0], image.shape[0], scale)
        for j in range(out.shape[1]):
            start, end = cell_bounds(j, left, right, out.shape[1], image.shape[1], scale)
            out[i, j] = 0
            if first < last and start < end:
                out[i, j] = image[first, start]
                for row in range(first, last):
                    for column in range(start, end):
                        if (
                            image[row, column] > out[i, j]
                            or image[row, column] != image[row, column]
                        ):
                            out[i, j] = image[row, column]


def round_half_away(coordinate: float) -> int:
    """Rounds to the nearest element, halves away from 0."""
    nearest = math.floor(abs(coordinate) + 0.5)
    return nearest if coordinate >= 0 else -nearest


def cell_bounds(
    k: int, first: int, last: int, count: int, length: int, scale: Any
) -> tuple[int, int]:
    """Returns the bounds of one cell along an axis, clamped to the image; computes in the dtype of
    the scale."""
    scalar = type(scale)
    size = scalar(max(last - first + 1, 1)) / scalar(count)
    start, end = math.floor(scalar(k) * size) + first, math.ceil(scalar(k + 1) * size) + first
    return min(max(start, 0), length), min(max(end, 0), length)


@op(
    "data[b, [n], [k]] @ F -> count[b] @ int32, boxes[b, [n], k] @ F, positions[b, [n]] @ int32",
    name="vision.get_valid_counts",
    where="score_index >= 0, score_index < k, id_index < k",
)
def get_valid_counts(
    data: Array, score_threshold: float = 0.0, id_index: int = 0, score_index: int = 1
) -> Any:
    """Moves the boxes with a score above the threshold to the front; returns counts and positions.

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
        valid_rows = np.flatnonzero(valid)
        counts[k] = len(valid_rows)
        boxes[k, : len(valid_rows)], positions[k, : len(valid_rows)] = rows[valid_rows], valid_rows
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
    valid_count = 0
    for k in range(data.shape[0]):
        has_class = id_index < 0 or data[k, id_index] >= 0
        if data[k, score_index] > score_threshold and has_class:
            for j in range(data.shape[1]):
                boxes[valid_count, j] = data[k, j]
            positions[valid_count] = k
            valid_count += 1
    count[0] = valid_count


def nms_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature; a static limit bounds the number of selected boxes."""
    scores, limit = call.dims("scores"), _constant(call, "max_output_boxes_per_class")
    if limit is None or scores is None or len(scores) != 3:
        return ResolvedSignature(_SUPPRESSED.format(count="_"), "", "", {"picked": 0})
    picked = scores[0] * scores[1] * dim_min(limit, scores[2])
    return ResolvedSignature(_SUPPRESSED.format(count="p"), "p == picked", "", {"picked": picked})


_SUPPRESSED = (
    "boxes[b, n, 4], scores[b, c, n], max_output_boxes_per_class[] @ int64,"
    " iou_threshold[], score_threshold[] -> picks[{count}, 3] @ int64, total[1] @ int64"
)


def _constant(call: CallView, name: str) -> int | None:
    position = list(call.operands).index(name)
    arg = call.args[position] if position < len(call.args) else None
    if not isinstance(arg, Constant) or arg.data.size != 1 or arg.data.dtype.kind not in "iu":
        return None
    return int(arg.data.item())


@op(nms_signature, name="vision.all_class_non_max_suppression", reads_sizes=True, reads_values=True)
def all_class_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array,
    iou_threshold: Array,
    score_threshold: Array,
    output_format: Literal["onnx"] = "onnx",
) -> Any:
    """Selects the best non-overlapping boxes per class: (image, class, box) and their number.

    With a static limit, the result has the maximal size and is padded with 0.
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
        class_scores = scores[b, c]
        order = [
            i for i in np.argsort(-class_scores, kind="stable") if class_scores[i] > score_threshold
        ]
        selected: list[int] = []
        for i in order:
            if len(selected) >= int(limit):
                break
            if all(_overlap(boxes[b, i], boxes[b, j]) <= iou_threshold for j in selected):
                selected.append(int(i))
        picks += [(b, c, i) for i in selected]
    max_count = scores.shape[0] * scores.shape[1] * min(int(limit), scores.shape[2])
    padded_picks = np.zeros((max_count, 3), "int64")
    padded_picks[: len(picks)] = np.array(picks, "int64").reshape(-1, 3)
    return padded_picks, np.array([len(picks)], "int64")


def _overlap(a: Array, b: Array) -> float:
    """Computes the intersection over union of two boxes."""
    low = np.maximum(np.minimum(a[:2], a[2:]), np.minimum(b[:2], b[2:]))
    high = np.minimum(np.maximum(a[:2], a[2:]), np.maximum(b[:2], b[2:]))
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = [float(np.prod(np.abs(box[2:] - box[:2]))) for box in (a, b)]
    return shared / max(areas[0] + areas[1] - shared, 1e-12)


FROM_DATA = "the elements of a region depend on data"
roi_align.non_differentiable(FROM_DATA)
roi_pool.non_differentiable(FROM_DATA)
get_valid_counts.non_differentiable("the scores select the boxes")
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
