"""Non-maximum suppression of boxes by a kernel."""

from __future__ import annotations

from functools import cache

import numpy as np

from structir.frontend.builder import NodeBuilder
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.ir.kernel import Kernel
from structir.ir.struct_info import TensorStructInfo
from structir.printer.parser.parser import parse
from structir.script import R

SOURCE = """\
@I.kernel
def non_max_suppression(
    boxes: R.Tensor(("images", "count", 4), "float32"),
    scores: R.Tensor(("images", "classes", "count"), "float32"),
    max_per_class: R.Tensor((1,), "int64"),
    iou_threshold: R.Tensor((1,), "float32"),
    score_threshold: R.Tensor((1,), "float32"),
    selection: R.Tensor(("capacity", 3), "int64"),
    total: R.Tensor((1,), "int64"),
):
    candidates = T.zeros((count,), "int64")
    selected = 0
    for image in range(images):
        for label in range(classes):
            candidate_count = 0
            for k in range(count):
                if scores[image, label, k] > score_threshold[0]:
                    candidates[candidate_count] = k
                    candidate_count = candidate_count + 1
            class_count = 0
            while candidate_count > 0 and class_count < max_per_class[0]:
                best = candidates[0]
                for k in range(1, candidate_count):
                    if scores[image, label, candidates[k]] > scores[image, label, best]:
                        best = candidates[k]
                selection[selected, 0] = image
                selection[selected, 1] = label
                selection[selected, 2] = best
                selected = selected + 1
                class_count = class_count + 1
                top = min(boxes[image, best, 0], boxes[image, best, 2])
                bottom = max(boxes[image, best, 0], boxes[image, best, 2])
                left = min(boxes[image, best, 1], boxes[image, best, 3])
                right = max(boxes[image, best, 1], boxes[image, best, 3])
                remaining = 0
                for k in range(candidate_count):
                    other = candidates[k]
                    other_top = min(boxes[image, other, 0], boxes[image, other, 2])
                    other_bottom = max(boxes[image, other, 0], boxes[image, other, 2])
                    other_left = min(boxes[image, other, 1], boxes[image, other, 3])
                    other_right = max(boxes[image, other, 1], boxes[image, other, 3])
                    height = max(min(bottom, other_bottom) - max(top, other_top), 0.0)
                    width = max(min(right, other_right) - max(left, other_left), 0.0)
                    intersection = height * width
                    areas = (bottom - top) * (right - left)
                    areas = areas + (other_bottom - other_top) * (other_right - other_left)
                    union = areas - intersection
                    retained = intersection <= 0.0
                    if intersection > 0.0:
                        retained = intersection / union <= iou_threshold[0]
                    if other != best and retained:
                        candidates[remaining] = other
                        remaining = remaining + 1
                candidate_count = remaining
    total[0] = selected
"""


@cache
def suppression_kernel() -> Kernel:
    """Returns the kernel (boxes by corners, scores, limit per class, IoU threshold, score
    threshold) -> image, class and box of each selection, and their number."""
    kernel = parse(SOURCE, "non_max_suppression.py").functions["non_max_suppression"]
    assert isinstance(kernel, Kernel)
    return kernel


def suppressed(builder: NodeBuilder, *operands: Expr, capacity: Dim) -> Expr:
    """Returns the image, class and box of each selection, for the operands of the kernel.

    The last three operands have one element. `capacity` is the largest number of selections; the
    number of rows of the result is not static.
    """
    boxes, scores, *limits = operands
    limits = [builder.emit(R.reshape(v, ShapeExpr((1,)))) for v in limits]
    call: Expr = R.call_kernel(
        builder.kernel(suppression_kernel()),
        (builder.emit(boxes), builder.emit(scores), *limits),
        out_sinfo=(TensorStructInfo((capacity, 3), "int64"), TensorStructInfo((1,), "int64")),
    )
    outputs = builder.emit(call)
    padded, count = builder.emit(outputs[0]), builder.emit(outputs[1])
    ends = R.concat(Tuple((count, _vector(3))), axis=0)
    return R.dynamic_strided_slice(padded, _vector(0, 0), ends, _vector(1, 1))


def _vector(*values: int) -> Constant:
    return Constant(np.array(values, "int64"))
