"""Mappings of slicing, concatenation, splitting and padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.padding import emit_pad
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.scalars import scalar
from structir.frontend.onnx.sizes import require, run_time_sizes, sizes_of
from structir.frontend.onnx.values import Elements
from structir.frontend.scalars import constant
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.ir.requirements import condition
from structir.script import R

TO_THE_END = 10**9  # exporters write a larger `end` for "to the end of the axis"


@onnx_op("Concat")
def concat(node: OnnxNode) -> Expr:
    default = 1 if node.version < 4 else 0 if len(node.values) < 2 else -1
    axis = node.axis_of_any_rank(node.attr("axis", default))
    return R.concat(Tuple(tuple(node.operands)), axis=axis)


@carries("Concat")
def _concat(node: OnnxNode, *parts: Elements) -> Any:
    return np.concatenate(parts, axis=node.attr("axis")), node.dtype()


@onnx_op("Split")
def split(node: OnnxNode) -> list[Expr]:
    rank = node.rank()
    axis = node.normalize_axis(node.attr("axis", 0), rank)
    size = node.dims()[axis]
    counts = _counts(node, size)
    result, start = [], 0
    for count in counts:
        end: Any = start + count
        result.append(R.strided_slice(node[0], [axis], ShapeExpr((start,)), ShapeExpr((end,))))
        start = end
    return result


def _counts(node: OnnxNode, size: Dim) -> list[Any]:
    """Returns the size of each part."""
    if node.has(1):
        counts = _checked_counts(node, list(sizes_of(node, 1, len(node.outputs))), size)
        if node.elements(1) is None:  # known at run time only
            require(node, [condition("==", sum(counts), size)])
        return counts
    if "split" in node.attributes:
        return _checked_counts(node, list(node.attr("split")), size)
    if node.version >= 18 and "num_outputs" not in node.attributes:
        node.fail(
            "expected operand 1 ('split') or the attribute num_outputs, found neither",
            f'`node.attribute.append(helper.make_attribute("num_outputs", {len(node.outputs)}))`',
        )
    parts = node.attr("num_outputs", len(node.outputs))
    if not 1 <= parts <= len(node.outputs):
        node.fail(
            f"num_outputs: expected {len(node.outputs)}, the outputs of the node, found {parts}"
        )
    part_size = (
        dims.ceildiv(size, parts) if node.version >= 18 else dims.exact_quotient(size, parts)
    )
    if part_size is None:
        node.fail(f"cannot split an axis of size {dims.text(size)} into {parts} equal parts")
    last = size - part_size * (parts - 1)
    if dims.at_least(-1, last) is True:
        node.fail(f"cannot split an axis of size {dims.text(size)} into {parts} parts")
    return [part_size] * (parts - 1) + [last]


def _checked_counts(node: OnnxNode, counts: list[Any], size: Dim) -> list[Any]:
    """Returns the sizes of the parts; raises `DiagnosticError` unless they divide the axis."""
    if len(counts) != len(node.outputs):
        node.fail(
            f"split: expected {len(node.outputs)} sizes, one per output of the node, "
            f"found {len(counts)}"
        )
    text = ", ".join([dims.text(c) for c in counts])
    if any(dims.at_least(-1, count) is True for count in counts):
        node.fail(f"split: expected sizes of 0 or more, found [{text}]")
    if dims.equal(sum(counts), size) is False:
        node.fail(
            f"split: expected sizes with the sum {dims.text(size)}, the size of the axis, "
            f"found [{text}]"
        )
    return counts


@onnx_op("Slice")
def slice_by_attributes(node: OnnxNode) -> Expr:
    starts, ends = node.attr("starts"), node.attr("ends")
    axes = node.attr("axes", None) or tuple(range(len(starts)))
    return _slice_statically(node, list(axes), list(starts), list(ends), [1] * len(axes))


@onnx_op("Slice", since=10)
def slice_by_operands(node: OnnxNode) -> Expr:
    bounds = node.elements(1), node.elements(2)
    others_known = all(not node.has(k) or node.elements(k) is not None for k in (3, 4))
    if any(b is None for b in bounds) or not others_known:
        return _run_time_slice(node)
    starts, ends = list(node.sizes(1)), list(node.sizes(2))
    axes = list(node.ints(3)) if node.has(3) else list(range(len(starts)))
    steps = list(node.ints(4)) if node.has(4) else [1] * len(axes)
    return _slice_statically(node, axes, starts, ends, steps)


def _slice_statically(
    node: OnnxNode, axes: list[int], starts: Any, ends: Any, steps: list[int]
) -> Expr:
    axis_list = [node.normalize_axis(a, node.rank()) for a in axes]
    if len(set(axis_list)) < len(axis_list) or not len(axis_list) == len(starts) == len(
        ends
    ) == len(steps):
        node.fail(
            f"expected distinct axes and equal lengths, found axes {axes}, {len(starts)} starts, "
            f"{len(ends)} ends and {len(steps)} steps"
        )
    if 0 in steps:
        node.fail(f"steps: expected non-zero numbers, found {steps}")
    if not axis_list:
        return node[0]
    sizes = node.dims()
    starts = [_first(b, sizes[p], s) for p, b, s in zip(axis_list, starts, steps, strict=True)]
    is_needed = [
        not (
            s == 1 and _is(b, 0) and ((isinstance(e, int) and e >= TO_THE_END) or _is(e, sizes[p]))
        )
        for p, b, e, s in zip(axis_list, starts, ends, steps, strict=True)
    ]
    needed = [k for k, keep in enumerate(is_needed) if keep]
    if not needed:
        return node[0]
    return R.strided_slice(
        node[0],
        [axis_list[k] for k in needed],
        ShapeExpr(tuple([starts[k] for k in needed])),
        ShapeExpr(tuple([ends[k] for k in needed])),
        [steps[k] for k in needed],
    )


def _first(start: Dim, size: Dim, step: int) -> Dim:
    """Returns the first index of a slice. With a negative step, ONNX clamps a start before the axis
    to 0; Python's slice would be empty."""
    if step < 0 and isinstance(start, int) and start < -1:
        return dims.dim_max(size + start, 0)
    return start


def _is(a: Dim, b: Dim) -> bool:
    return dims.equal(a, b) is True


def _run_time_slice(node: OnnxNode) -> Expr:
    """Returns a slice with data-dependent bounds: the operands are scattered to one number per
    axis."""
    rank, sizes = node.rank(), node.dims()
    axes = _slice_axes(node, rank)

    def spread(position: int, defaults: Expr) -> Expr:
        if not node.has(position):
            return defaults
        return R.scatter_elements(defaults, axes, R.astype(node[position], "int64"), axis=0)

    steps = spread(4, constant([1] * rank))
    starts = spread(1, constant([0] * rank))
    return R.dynamic_strided_slice(
        node[0], starts, spread(2, R.shape_to_tensor(ShapeExpr(sizes))), steps
    )


def _slice_axes(node: OnnxNode, rank: int) -> Expr:
    """Returns the axes of a slice as a vector, which may be unknown at import time."""
    if not node.has(3):
        (count,) = node.dims(1)
        end = R.prim_value(count)
        return node.emit(R.arange(R.prim_value(0), end, R.prim_value(1), dtype="int64"))
    return _axis_numbers(node, 3, rank)


def _axis_numbers(node: OnnxNode, index: int, rank: int) -> Expr:
    """Returns the non-negative axes that an operand lists, as a vector."""
    if node.elements(index) is None:
        axes = node.emit(R.astype(node[index], "int64"))
        return R.where(R.less(axes, constant(0)), R.add(axes, constant(rank)), axes)
    axis_list = [node.normalize_axis(a, rank) for a in node.ints(index)]
    if len(set(axis_list)) < len(axis_list):
        node.fail(f"axes: expected distinct axes, found {list(node.ints(index))}")
    return constant(axis_list)


@carries("Slice")
def _slice(node: OnnxNode, x: Elements, *operands: Any) -> Any:
    if node.version < 10:
        starts, ends = node.attr("starts"), node.attr("ends")
        axes = node.attr("axes", None) or range(len(starts))
        steps: Any = [1] * len(starts)
    else:
        starts, ends = node.ints(1), node.ints(2)
        axes = node.ints(3) if node.has(3) else range(len(starts))
        steps = node.ints(4) if node.has(4) else [1] * len(starts)
    cut: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else end
        cut[axis] = slice(_first(start, x.shape[axis], step), stop, step)
    return x[tuple(cut)], node.dtype()


@onnx_op("Pad")
def pad(node: OnnxNode) -> Expr:
    mode, rank = node.attr("mode", "constant"), node.rank()
    attribute = "pads" if "pads" in node.attributes else "paddings"
    by_attribute = attribute in node.attributes
    value: Any = node.attr("value", 0.0) if by_attribute else 0.0
    if not by_attribute and node.has(2):
        value = scalar(node, node[2])
    if not by_attribute and (node.elements(1) is None or _has_unknown_axes(node)):
        return emit_pad(node, node[0], *_run_time_pads(node, rank), mode, value)
    pads = list(node.attr(attribute)) if by_attribute else list(node.sizes(1))
    axes = (
        [node.normalize_axis(a, rank) for a in node.ints(3)] if node.has(3) else list(range(rank))
    )
    if len(pads) != 2 * len(axes):
        node.fail(f"pads: expected {2 * len(axes)} values for {len(axes)} axes, found {len(pads)}")
    before: list[Dim] = [0] * rank
    after: list[Dim] = [0] * rank
    for position, axis in enumerate(axes):
        before[axis], after[axis] = pads[position], pads[position + len(axes)]
    return emit_pad(node, node[0], before, after, mode, value)


def _has_unknown_axes(node: OnnxNode) -> bool:
    return node.has(3) and node.elements(3) is None


def _run_time_pads(node: OnnxNode, rank: int) -> tuple[list[Dim], list[Dim]]:
    """Returns the amounts before and after every axis, bound at run time: the difference of the
    elements that are added and removed."""
    pads = node.emit(R.reshape(R.astype(node[1], "int64"), ShapeExpr((2, -1))))
    if node.has(3):
        axes = _axis_numbers(node, 3, rank)
        zeros = constant([[0] * rank] * 2)
        pads = R.scatter_elements(zeros, R.stack([axes, axes]), pads, axis=1)
    added, removed = (
        run_time_sizes(node, node.emit(R.reshape(R.maximum(p, constant(0)), (2 * rank,))))
        for p in (pads, R.negative(pads))
    )
    amounts = [a - b for a, b in zip(added, removed, strict=True)]
    return amounts[:rank], amounts[rank:]
