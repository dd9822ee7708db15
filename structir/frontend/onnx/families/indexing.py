"""Reads and writes whose places are read from data."""

from __future__ import annotations

from typing import Any

import numpy as np

from structir.frontend.onnx.node import Node
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.scalars import constant, size_number
from structir.frontend.onnx.values import Elements, Value
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, ShapeExpr
from structir.script import R


def from_the_front(node: Node, indices: Expr, size: Dim) -> Expr:
    """Indices along an axis, negative ones counted from its end."""
    if isinstance(indices, Constant):
        data = indices.data.astype(np.int64)
        if (data >= 0).all():
            return Constant(data)
        if isinstance(size, int):
            return Constant(np.where(data < 0, data + size, data))
    wide = R.astype(indices, "int64") if node.tensor_info(indices).dtype != "int64" else indices
    return R.where(R.less(wide, constant(0)), R.add(wide, size_number(size)), wide)


@onnx_op("Gather")
def gather(node: Node) -> Expr:
    axis = node.axis("axis", 0)
    indices = from_the_front(node, node[1], node.dims()[axis])
    return R.take(node[0], indices, axis=axis)


@carries("Gather")
def _gather(node: Node, x: Elements, indices: Elements) -> Any:
    made = np.take(x, indices.astype(np.int64), axis=node.attr("axis", 0))
    return np.asarray(made, object), node.dtype()


@onnx_op("GatherElements")
def gather_elements(node: Node) -> Expr:
    axis = node.axis("axis", 0)
    return R.gather_elements(node[0], from_the_front(node, node[1], node.dims()[axis]), axis=axis)


@onnx_op("GatherND")
def gather_nd(node: Node) -> Expr:
    batch = node.attr("batch_dims", 0)
    return R.gather_nd(node[0], _tuples(node, batch), batch_dims=batch)


def _tuples(node: Node, batch: int = 0) -> Expr:
    """Tuples of indices, negative ones counted from the end of their axis."""
    indices, sizes = node[1], node.dims()[batch:]
    depth = node.dims(1)[-1]
    if isinstance(indices, Constant) and (indices.data >= 0).all():
        return Constant(indices.data.astype(np.int64))
    if not isinstance(depth, int):
        node.fail("how many indices make a place is not known")
    widths = R.shape_to_tensor(ShapeExpr(tuple(sizes[:depth])))
    if all(isinstance(s, int) for s in sizes[:depth]):
        widths = constant(list(sizes[:depth]))
    return R.where(R.less(indices, constant(0)), R.add(indices, widths), indices)


REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(node: Node) -> str:
    name = node.attr("reduction", "none")
    if name not in REDUCTIONS:
        node.fail(f"there is no reduction {name!r}")
    return REDUCTIONS[name]


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Expr:
    axis = node.axis("axis", 0)
    indices = from_the_front(node, node[1], node.dims()[axis])
    return R.scatter_elements(node[0], indices, node[2], axis=axis, reduction=_reduction(node))


@onnx_op("ScatterND")
def scatter_nd(node: Node) -> Expr:
    return R.scatter_nd(node[0], _tuples(node), node[2], reduction=_reduction(node))


@onnx_op("NonZero")
def non_zero(node: Node) -> Expr:
    return R.nonzero(node[0])


@onnx_op("Compress")
def compress(node: Node) -> Any:
    axis = node.attr("axis", None)
    x = node[0]
    if axis is None:
        x, axis = node.emit(R.flatten(x)), 0
    else:
        axis = node.counted(axis, node.rank())
    places = node.emit(R.squeeze(R.nonzero(node[1]), [0]))
    value = Value(places)
    bound = node.importer.measured(value, node.part_name(), node.place)
    return R.take(x, bound.expr, axis=axis)


@onnx_op("ReverseSequence")
def reverse_sequence(node: Node) -> Expr:
    return R.reverse_sequence(
        node[0],
        R.astype(node[1], "int64"),
        seq_axis=node.attr("time_axis"),
        batch_axis=node.attr("batch_axis"),
    )
