"""Mappings of reductions, argmax and argmin, cumulative sums, top-k and unique elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structir.frontend.onnx.joins import cast_checked
from structir.frontend.onnx.node import OnnxNode
from structir.frontend.onnx.ops.shapes import axes_of
from structir.frontend.onnx.registry import carries, onnx_op
from structir.frontend.onnx.sizes import require, run_time_sizes
from structir.frontend.onnx.values import Elements
from structir.frontend.scalars import constant, number, reshape_to, size_number
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.ir.requirements import condition
from structir.ir.struct_info import TensorStructInfo
from structir.script import R

Axes = list[int] | None  # None for all axes of a tensor of unknown rank


def _reduction(reduce: Callable[[OnnxNode, Expr, Axes, bool], Expr]) -> Callable[[OnnxNode], Any]:
    """Returns a mapping that reduces over axes. Without axes it reduces over all, or with
    `noop_with_empty_axes` over none."""

    def build(node: OnnxNode) -> Any:
        axes = axes_of(node)
        if axes is not None and not axes:
            axes = None
        if axes is None and node.flag("noop_with_empty_axes"):
            return reduce(node, node[0], [], True)
        if axes is None and node.info().ndim is None:
            return reduce(node, node[0], None, node.flag("keepdims", 1))
        over_axes = range(node.rank()) if axes is None else axes
        axis_list = [node.axis_of_any_rank(a) for a in over_axes]
        return reduce(node, node[0], axis_list, node.flag("keepdims", 1))

    return build


def _plain(op: Any) -> Callable[[OnnxNode], Any]:
    return _reduction(lambda node, x, axes, keep: over(op, x, axes, keep))


def over(op: Any, x: Expr, axes: Axes, keep: bool) -> Expr:
    """Returns a reduction over some axes; without axes, the operand unchanged."""
    return op(x, axis=axes, keepdims=keep) if axes != [] else x


onnx_op("ReduceSum")(_plain(R.sum))
onnx_op("ReduceProd")(_plain(R.prod))
onnx_op("ReduceMean")(_plain(R.mean))
onnx_op("ReduceL1")(_reduction(lambda n, x, axes, keep: over(R.sum, R.abs(x), axes, keep)))
onnx_op("ReduceSumSquare")(
    _reduction(lambda n, x, axes, keep: over(R.sum, R.multiply(x, x), axes, keep))
)


def _in_floats(reduce: Any) -> Any:
    """Returns a reduction that computes integers in float64, then converts back."""

    def build(node: OnnxNode, x: Expr, axes: Axes, keep: bool) -> Expr:
        dtype = node.dtype()
        if is_float(dtype):
            return reduce(x, axes, keep, node)
        return R.astype(reduce(R.astype(x, "float64"), axes, keep, node), dtype)

    return build


@onnx_op("ReduceLogSum")
@_reduction
@_in_floats
def reduce_log_sum(x: Expr, axes: Axes, keep: bool, node: OnnxNode) -> Expr:
    return R.log(over(R.sum, x, axes, keep))


@onnx_op("ReduceL2")
@_reduction
@_in_floats
def reduce_l2(x: Expr, axes: Axes, keep: bool, node: OnnxNode) -> Expr:
    return R.sqrt(over(R.sum, R.multiply(x, x), axes, keep))


@onnx_op("ReduceLogSumExp")
@_reduction
@_in_floats
def reduce_log_sum_exp(x: Expr, axes: Axes, keep: bool, node: OnnxNode) -> Expr:
    if axes == []:
        return x
    x = node.emit(x)
    top = node.emit(R.max(x, axis=axes, keepdims=True))
    zero = number(0.0, node.tensor_info(x).dtype or "float32")
    finite = R.where(R.isfinite(top), top, zero)
    total = R.log(R.sum(R.exp(R.subtract(x, finite)), axis=axes, keepdims=True))
    result = R.add(total, finite)
    return result if keep else R.squeeze(result, axes)


def _extreme(op: Any) -> Callable[[OnnxNode], Any]:
    def reduce(node: OnnxNode, x: Expr, axes: Axes, keep: bool) -> Expr:
        if node.dtype() != "bool":
            return over(op, x, axes, keep)
        return R.astype(over(op, R.astype(x, "uint8"), axes, keep), "bool")

    return _reduction(reduce)


onnx_op("ReduceMax")(_extreme(R.max))
onnx_op("ReduceMin")(_extreme(R.min))


def _position(op: Any) -> Callable[[OnnxNode], Expr]:
    def build(node: OnnxNode) -> Expr:
        axis, keepdims = node.axis_of_any_rank(node.attr("axis")), node.flag("keepdims", 1)
        if not node.flag("select_last_index"):
            return R.astype(op(node[0], axis=axis, keepdims=keepdims), "int64")
        reversed_index = R.astype(
            op(R.flip(node[0], axis=axis), axis=axis, keepdims=keepdims), "int64"
        )
        last = node.dims()[axis] - 1
        return R.subtract(_size(last), reversed_index)

    return build


def _size(size: Any) -> Expr:
    return constant(size) if isinstance(size, int) else R.full((), R.prim_value(size), "int64")


onnx_op("ArgMax")(_position(R.argmax))
onnx_op("ArgMin")(_position(R.argmin))


def _cumulative(op: Any) -> Callable[[OnnxNode], Expr]:
    def build(node: OnnxNode) -> Expr:
        dtype = node.dtype()

        def along(axis: int) -> Expr:
            x = R.flip(node[0], axis=axis) if node.flag("reverse") else node[0]
            result = op(x, axis=axis, exclusive=node.flag("exclusive"))
            if result.struct_info.dtype != dtype:
                result = R.astype(result, dtype)
            return node.emit(R.flip(result, axis=axis) if node.flag("reverse") else result)

        if node.elements(1) is None:
            return _along_run_time_axis(node, along)
        return along(node.axis_of_any_rank(node.ints(1)[0]))

    return build


def _along_run_time_axis(node: OnnxNode, along: Callable[[int], Expr]) -> Expr:
    """Selects among the results along every axis by operand 1: a branch would end the dataflow
    block, and few models have such an axis."""
    rank = node.rank()
    axis = R.reshape(R.astype(node[1], "int64"), (1,))
    (shifted,) = run_time_sizes(node, node.emit(R.add(axis, constant(rank))))
    require(node, [condition("<", shifted, 2 * rank)])
    result = along(rank - 1)
    for k in range(rank - 1):
        is_axis = R.equal(size_number(dims.floormod(shifted, rank)), constant(k))
        result = node.emit(R.where(is_axis, along(k), result))
    return result


onnx_op("CumSum")(_cumulative(R.cumsum))
onnx_op("CumProd")(_cumulative(R.cumprod))


@onnx_op("TopK")
def top_k(node: OnnxNode) -> list[Any]:
    axis = node.axis("axis")
    is_attribute = "k" in node.attributes
    sizes = node.elements(1) if not is_attribute else None
    k = node.attr("k") if is_attribute else None if sizes is None else sizes.ravel()[0]
    size = node.dims()[axis]
    if isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size)):
        node.fail(f"k: expected 0 to {dims.text(size)}, the size of the axis, found {k}")
    is_static = isinstance(k, int) and k > 0
    result = node.emit(
        R.topk(
            node[0],
            k=k if is_static else -1,
            axis=axis,
            ret_type="both",
            largest=node.flag("largest", 1),
            dtype="int64",
        )
    )
    outputs = [result[0], result[1]]
    return outputs if is_static else [_first(node, node.emit(x), axis, k) for x in outputs]


def _first(node: OnnxNode, x: Expr, axis: int, k: Dim | None) -> Expr:
    """Returns the first `k` elements along an axis; `k` is None if operand 1 is unknown at import
    time."""
    if k is not None:
        return R.strided_slice(x, [axis], ShapeExpr((0,)), ShapeExpr((k,)))
    rank, sizes = node.rank(), node.dims()
    count = reshape_to(R.astype(node[1], "int64"), (1,))
    parts = [R.shape_to_tensor(ShapeExpr((n,))) for n in sizes]
    ends = R.concat(Tuple((*parts[:axis], count, *parts[axis + 1 :])), axis=0)
    zeros, ones = constant([0] * rank), constant([1] * rank)
    cut = R.dynamic_strided_slice(x, zeros, ends, ones)
    length = node.importer.symbols.fresh(f"{node.part_name()}_{axis}")
    info = TensorStructInfo((*sizes[:axis], length, *sizes[axis + 1 :]), node.tensor_info(x).dtype)
    return cast_checked(node.importer, node.part_name(), cut, info, node.span)


@onnx_op("Unique")
def unique(node: OnnxNode) -> Any:
    result = node.emit(
        R.unique(
            node[0],
            sorted=node.flag("sorted", 1),
            return_index=True,
            return_inverse=True,
            return_counts=True,
            axis=node.attr("axis", None),
        )
    )
    return [result[k] for k in range(4)]


@carries("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _fold_reduction(node: OnnxNode, x: Elements, *rest: Elements) -> Any:
    axes = axes_of(node)
    if axes == () or (axes is None and node.flag("noop_with_empty_axes")):
        return None
    keep = node.flag("keepdims", 1)
    act = {
        "ReduceProd": lambda a, b: a * b,
        "ReduceSum": lambda a, b: a + b,
        "ReduceMax": dims.dim_max,
        "ReduceMin": dims.dim_min,
    }[node.op_type]
    result = np.frompyfunc(act, 2, 1).reduce(x, axis=axes, keepdims=keep)
    return np.asarray(result, object), node.dtype()
