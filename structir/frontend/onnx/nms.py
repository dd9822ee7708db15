"""A kernel for non-maximum suppression."""

from __future__ import annotations

from functools import cache

from structir.ir.kernel import Kernel
from structir.printer.parser.parser import parse

SOURCE = """\
@I.kernel
def non_max_suppression(
    boxes: R.Tensor(("images", "count", 4), "float32"),
    scores: R.Tensor(("images", "classes", "count"), "float32"),
    limit: R.Tensor((1,), "int64"),
    overlap: R.Tensor((1,), "float32"),
    least: R.Tensor((1,), "float32"),
    picks: R.Tensor(("room", 3), "int64"),
    total: R.Tensor((1,), "int64"),
):
    left = T.zeros((count,), "int64")
    made = 0
    for image in range(images):
        for kind in range(classes):
            size = 0
            for k in range(count):
                if scores[image, kind, k] > least[0]:
                    left[size] = k
                    size = size + 1
            found = 0
            while size > 0 and found < limit[0]:
                best = left[0]
                for k in range(1, size):
                    if scores[image, kind, left[k]] > scores[image, kind, best]:
                        best = left[k]
                picks[made, 0] = image
                picks[made, 1] = kind
                picks[made, 2] = best
                made = made + 1
                found = found + 1
                top = min(boxes[image, best, 0], boxes[image, best, 2])
                bottom = max(boxes[image, best, 0], boxes[image, best, 2])
                first = min(boxes[image, best, 1], boxes[image, best, 3])
                last = max(boxes[image, best, 1], boxes[image, best, 3])
                kept = 0
                for k in range(size):
                    other = left[k]
                    low = min(boxes[image, other, 0], boxes[image, other, 2])
                    high = max(boxes[image, other, 0], boxes[image, other, 2])
                    start = min(boxes[image, other, 1], boxes[image, other, 3])
                    end = max(boxes[image, other, 1], boxes[image, other, 3])
                    tall = max(min(bottom, high) - max(top, low), 0.0)
                    wide = max(min(last, end) - max(first, start), 0.0)
                    shared = tall * wide
                    both = (bottom - top) * (last - first) + (high - low) * (end - start) - shared
                    if other != best and (shared <= 0.0 or shared <= overlap[0] * both):
                        left[kept] = other
                        kept = kept + 1
                size = kept
    total[0] = made
"""


@cache
def suppression_kernel() -> Kernel:
    """Returns the kernel (boxes by corners, scores, limit per class, IoU threshold, score
    threshold) -> image, class and box of each selection, and their number."""
    kernel = parse(SOURCE, "non_max_suppression.py").functions["non_max_suppression"]
    assert isinstance(kernel, Kernel)
    return kernel
