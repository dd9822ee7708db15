"""Mappings of gather, scatter and other indexed reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from structir.frontend.onnx.joins import cast_checked
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.padding import emit_pad
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.scalars import like
from structir.frontend.onnx.sizes import require, run_time_sizes
from structir.frontend.onnx.values import Elements, OnnxValue
from structir.frontend.scalars import constant, index_range, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.ir.requirements import condition
from structir.ir.struct_info import TensorStructInfo
from structir.script import R


def normalize_indices(node: OnnxNode, indices: Expr, size: Dim) -> Expr:
    """Returns indices along an axis, normalized to be non-negative."""
    if isinstance(indices, Constant):
        data = indices.data.astype(np.int64)
        _check_range(node, data, size)
        if (data >= 0).all():
            return Constant(data)
        if isinstance(size, int):
            return Constant(np.where(data < 0, data + size, data))
    indices64 = (
        R.astype(indices, "int64") if node.tensor_info(indices).dtype != "int64" else indices
    )
    return R.where(R.less(indices64, constant(0)), R.add(indices64, size_number(size)), indices64)


def _check_range(node: OnnxNode, indices: np.ndarray[Any, Any], size: Dim) -> None:
    """Raises `DiagnosticError` if an index along an axis is out of range."""
    if not isinstance(size, int):
        return
    outside = indices[(indices < -size) | (indices >= size)]
    if outside.size:
        expected = f"{-size} to {size - 1}" if size else "none"
        node.fail(f"indices: expected {expected} for an axis of size {size}, found {outside[0]}")


def _least_size(size: Dim, indices: Expr) -> int:
    """Returns the size that constant indices along an axis require; 0 if it certainly has it."""
    if not isinstance(indices, Constant) or isinstance(size, int) or not indices.data.size:
        return 0
    least = max(int(indices.data.max()) + 1, -int(indices.data.min()))
    # The first element is selected in most models, from axes that are never empty.
    return 0 if least <= 1 or dims.at_least(size, least) is True else least


def _size_with(size: Dim, indices: Expr) -> Dim:
    """Returns the size of an axis, at least the size that constant indices along it require."""
    least = _least_size(size, indices)
    return dims.dim_max(size, least) if least else size


def _checked_operand(node: OnnxNode, indices: Mapping[int, Expr]) -> Expr:
    """Returns the operand, checked at run time to have the elements that constant indices select
    along axes of symbolic size."""
    sizes = [
        _size_with(size, indices[axis]) if axis in indices else size
        for axis, size in enumerate(node.dims())
    ]
    info = TensorStructInfo(tuple(sizes), node.dtype())
    return cast_checked(node.importer, node.part_name(), node[0], info, node.span)


def _require_selected(node: OnnxNode, indices: Mapping[int, Expr]) -> None:
    """Requires at run time that axes of symbolic size have the elements that constant indices
    write. The operand keeps its StructInfo, and so does the result."""
    sizes = node.dims()
    required = [(sizes[axis], _least_size(sizes[axis], index)) for axis, index in indices.items()]
    require(node, [condition(">=", size, least) for size, least in required if least])


@onnx_op("Gather")
def gather(node: OnnxNode) -> Expr:
    axis = node.axis("axis", 0)
    indices = normalize_indices(node, node[1], node.dims()[axis])
    return R.take(_checked_operand(node, {axis: node[1]}), indices, axis=axis)


@carries("Gather")
def _gather(node: OnnxNode, x: Elements, indices: Elements) -> Any:
    result = np.take(x, indices.astype(np.int64), axis=node.attr("axis", 0))
    return np.asarray(result, object), node.dtype()


@onnx_op("GatherElements")
def gather_elements(node: OnnxNode) -> Expr:
    axis = node.axis("axis", 0)
    indices = normalize_indices(node, node[1], node.dims()[axis])
    return R.gather_elements(_checked_operand(node, {axis: node[1]}), indices, axis=axis)


@onnx_op("GatherND")
def gather_nd(node: OnnxNode) -> Expr:
    batch, result = node.attr("batch_dims", 0), node.declared_info(0)
    slice_rank = None
    if isinstance(result, TensorStructInfo) and result.ndim is not None:
        slice_rank = result.ndim - node.rank(1) + 1
    tuples = _tuples(node, slice_rank, batch)
    return R.gather_nd(
        _checked_operand(node, _index_columns(node, batch)), tuples, batch_dims=batch
    )


def _index_columns(node: OnnxNode, batch: int = 0) -> dict[int, Constant]:
    """Returns the constant indices along each axis that index tuples select from."""
    if not isinstance(node[1], Constant):
        return {}
    columns = node[1].data
    return {batch + k: Constant(columns[..., k]) for k in range(columns.shape[-1])}


def _tuples(node: OnnxNode, slice_rank: int | None, batch: int = 0) -> Expr:
    """Returns index tuples with negative indices normalized; the rank of the slices that they
    select gives the length of tuples of symbolic length."""
    indices, sizes = node[1], node.dims()[batch:]
    *outer, depth = node.dims(1)
    if not isinstance(depth, int):
        if slice_rank is None:
            node.fail(
                f"indices: expected a last axis of static size, found {dims.text(depth)}",
                node.static_size_hint(1, len(outer)),
            )
        depth = len(sizes) - slice_rank
        info = TensorStructInfo((*outer, depth), node.dtype(1))
        indices = cast_checked(node.importer, node.part_name(), indices, info, node.span)
    if not 0 <= depth <= len(sizes):
        node.fail(f"indices: expected at most {len(sizes)} per tuple, found {depth}")
    if isinstance(indices, Constant):
        data = indices.data.astype(np.int64)
        for k, size in enumerate(sizes[:depth]):
            _check_range(node, data[..., k], size)
        if (data >= 0).all():
            return Constant(data)
    axis_sizes = R.shape_to_tensor(ShapeExpr(tuple(sizes[:depth])))
    if all(isinstance(s, int) for s in sizes[:depth]):
        axis_sizes = constant(list(sizes[:depth]))
    return R.where(R.less(indices, constant(0)), R.add(indices, axis_sizes), indices)


REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(node: OnnxNode) -> str:
    return REDUCTIONS[node.choice("reduction", REDUCTIONS, "none")]


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode) -> Expr:
    axis = node.axis("axis", 0)
    indices = normalize_indices(node, node[1], node.dims()[axis])
    _require_selected(node, {axis: node[1]})
    return R.scatter_elements(node[0], indices, node[2], axis=axis, reduction=_reduction(node))


@onnx_op("ScatterND")
def scatter_nd(node: OnnxNode) -> Expr:
    tuples = _tuples(node, node.rank(2) - node.rank(1) + 1)
    _require_selected(node, _index_columns(node))
    return R.scatter_nd(node[0], tuples, node[2], reduction=_reduction(node))


@onnx_op("NonZero")
def non_zero(node: OnnxNode) -> Expr:
    value = R.nonzero(node[0])
    info = node.tensor_info(value)
    if isinstance(info.dims, tuple) or not node.info().ndim:
        return value
    sizes = (node.rank(), node.importer.symbols.fresh(f"{node.part_name()}_1"))
    sized_info = TensorStructInfo(sizes, info.dtype)
    return cast_checked(node.importer, node.part_name(), value, sized_info, node.span)


@onnx_op("Compress")
def compress(node: OnnxNode) -> Any:
    axis = node.attr("axis", None)
    x = node[0]
    if axis is None:
        x, axis = node.emit(R.flatten(x)), 0
    else:
        axis = node.normalize_axis(axis, node.rank())
    positions = node.emit(R.squeeze(R.nonzero(node[1]), [0]))
    value = OnnxValue(positions)
    bound = node.importer.name_sizes(value, node.part_name(), node.span)
    return R.take(x, bound.expr, axis=axis)


@onnx_op("ReverseSequence")
def reverse_sequence(node: OnnxNode) -> Expr:
    return R.reverse_sequence(
        node[0],
        R.astype(node[1], "int64"),
        seq_axis=node.attr("time_axis"),
        batch_axis=node.attr("batch_axis"),
    )


@onnx_op("TensorScatter")
def tensor_scatter(node: OnnxNode) -> Expr:
    """Builds TensorScatter: writes the updates after the entries already present in each batch
    item, modulo the axis size in mode `circular`."""
    axis = node.axis("axis", -2)
    sizes, update_sizes = node.dims(), node.dims(1)
    batch, rank = sizes[0], len(sizes)
    start = node.get(2)
    if start is None:
        start = R.full(ShapeExpr((batch,)), constant(0))
    positions = index_range(update_sizes[axis])
    circular = node.choice("mode", ("linear", "circular")) == "circular"
    if circular:  # before the sum, which could overflow
        start = R.floor_mod(R.astype(start, "int64"), size_number(sizes[axis]))
    starts = R.reshape(start, ShapeExpr((batch, *[1] * (rank - 1))))
    steps = R.reshape(positions, ShapeExpr((update_sizes[axis], *[1] * (rank - 1 - axis))))
    _require_write(node, start, axis)
    indices = R.add(starts, steps)
    if circular:
        indices = R.floor_mod(indices, size_number(sizes[axis]))
    full_indices = R.broadcast_to(indices, ShapeExpr(update_sizes))
    return R.scatter_elements(node[0], full_indices, node[1], axis=axis)


def _require_write(node: OnnxNode, start: Expr, axis: int) -> None:
    """Requires at run time that the updates do not exceed the cache; constant sizes and positions
    are checked by the shape rule."""
    size, count = node.dims()[axis], node.dims(1)[axis]
    conditions = [] if dims.at_least(size, count) else [condition(">=", size, count)]
    if node.choice("mode", ("linear", "circular")) == "linear" and node.has(2):
        # The zero makes the extrema of an empty batch defined and changes no condition.
        starts = R.concat((R.astype(start, "int64"), constant([0])), axis=0)
        extrema = R.stack((R.negative(R.min(starts)), R.max(starts)), axis=0)
        before, last = run_time_sizes(node, node.emit(extrema))
        conditions += [condition("==", before, 0), condition(">=", size - count, last)]
    require(node, conditions)


@onnx_op("Col2Im")
def col_to_im(node: OnnxNode) -> Expr:
    """Builds Col2Im: sums blocks of columns at their positions in the image."""
    image, block = node.ints(1), node.ints(2)
    count = len(image)
    strides = node.attr("strides", None) or (1,) * count
    dilations = node.attr("dilations", None) or (1,) * count
    pads = node.attr("pads", None) or (0,) * (2 * count)
    sizes = node.dims()
    padded = [n + pads[k] + pads[k + count] for k, n in enumerate(image)]
    positions = [
        (w - (b - 1) * d - 1) // s + 1
        for w, b, d, s in zip(padded, block, dilations, strides, strict=True)
    ]
    flat_indices = np.zeros((*block, *positions), np.int64)
    for k in range(count):
        shape = [1] * (2 * count)
        inner, outer = shape.copy(), shape.copy()
        inner[k], outer[count + k] = block[k], positions[k]
        offsets = np.arange(block[k]).reshape(inner) * dilations[k]
        flat_indices = (
            flat_indices * padded[k] + offsets + np.arange(positions[k]).reshape(outer) * strides[k]
        )
    batch, channels = sizes[0], dims.exact_quotient(sizes[1], int(np.prod(block)))
    if channels is None:
        node.fail(
            f"axis 1 of the input: expected a multiple of {int(np.prod(block))}, "
            f"found {dims.text(sizes[1])}"
        )
    element_count = int(flat_indices.size)
    columns = R.reshape(node[0], ShapeExpr((batch, channels, element_count)))
    padded_count = int(np.prod(padded))
    zeros = R.full(ShapeExpr((batch, channels, padded_count)), like(node, 0))
    indices = R.broadcast_to(
        constant(flat_indices.reshape(1, 1, element_count)),
        ShapeExpr((batch, channels, element_count)),
    )
    result = R.scatter_elements(zeros, indices, columns, axis=2, reduction="add")
    result = R.reshape(result, ShapeExpr((batch, channels, *padded)))
    before = [0, 0, *[-p for p in pads[:count]]]
    return emit_pad(node, result, before, [0, 0, *[-p for p in pads[count:]]], "constant")
