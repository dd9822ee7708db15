"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from typing import Any, Literal

from structir.ir.dims import dim_min
from structir.ir.expr import Constant
from structir.lazy import lazy_module
from structir.ops.define import op
from structir.ops.examples import Sample, Values
from structir.ops.given import Given, Written
from structir.ops.sort import merged_order

np = lazy_module("numpy")
Array = Any


def suppressed(given: Given) -> Written:
    """A known limit bounds the number of boxes that can be picked."""
    scores, limit = given.dims("scores"), _constant(given, "max_output_boxes_per_class")
    if limit is None or scores is None or len(scores) != 3:
        return Written(_SUPPRESSED.format(count="_, 3"), "k == 4, t == 1", "", {"picked": 0})
    picked = scores[0] * scores[1] * dim_min(max(limit, 0), scores[2])
    checks = "k == 4, t == 1, p == picked, q == 3"
    return Written(_SUPPRESSED.format(count="[p], [q]"), checks, "", {"picked": picked})


_SUPPRESSED = (
    "boxes[[b], [n], [k]], scores[[b], [c], [n]], max_output_boxes_per_class[] @ int64,"
    " iou_threshold[], score_threshold[] -> picks[{count}] @ int64, total[[t]] @ int64"
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
    iou, least = float(iou_threshold), float(score_threshold)
    picks: list[tuple[int, int, int]] = []
    for b, c in np.ndindex(scores.shape[:2]):
        own = scores[b, c]
        order = [i for i in np.argsort(-own, kind="stable") if own[i] > least]
        kept: list[int] = []
        for i in order:
            if len(kept) >= int(limit):
                break
            if all(_overlap(boxes[b, i], boxes[b, j]) <= iou for j in kept):
                kept.append(int(i))
        picks += [(b, c, i) for i in kept]
    room = scores.shape[0] * scores.shape[1] * max(min(int(limit), scores.shape[2]), 0)
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


@all_class_non_max_suppression.kernel("cpu")
def _(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: int,
    iou_threshold: float,
    score_threshold: float,
    picks: Array,
    total: Array,
) -> None:
    picks[:] = 0
    found = 0
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            first = found
            for i in merged_order(scores[b, c], True):
                if found - first >= max_output_boxes_per_class:
                    break
                kept = scores[b, c, i] > score_threshold
                for k in range(first, found):
                    kept = kept and overlap(boxes[b, i], boxes[b, picks[k, 2]]) <= iou_threshold
                if kept:
                    picks[found, 0], picks[found, 1], picks[found, 2] = b, c, i
                    found += 1
    total[0] = found


def overlap(a: Array, b: Array) -> float:
    """The shared area of two boxes over that of both together."""
    sides = np.empty(2, a.dtype)
    areas = np.empty(2)
    for k in range(2):
        low = max(min(a[k], a[k + 2]), min(b[k], b[k + 2]))
        high = min(max(a[k], a[k + 2]), max(b[k], b[k + 2]))
        sides[k] = max(high - low, 0)
    shared = np.float64(sides[0] * sides[1])
    areas[0] = abs((a[2] - a[0]) * (a[3] - a[1]))
    areas[1] = abs((b[2] - b[0]) * (b[3] - b[1]))
    share: float = shared / max(areas[0] + areas[1] - shared, 1e-12)
    return share


all_class_non_max_suppression.example(
    Sample("float32", (1, 4, 4), fractions=True),
    Sample("float32", (1, 2, 4), fractions=True),
    Values("int64", 2),
    Values("float32", 0.5),
    Values("float32", 0.25),
)
