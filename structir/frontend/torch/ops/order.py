"""Mappings of ops that order elements: sorts, order statistics, modes, and searches."""

from __future__ import annotations

from typing import Any

from structir.frontend.scalars import index_range, number, reshape_to
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, product
from structir.ir.dtype import is_float
from structir.ir.expr import Expr
from structir.script import R


@torch_op("sort")
def sort(node: FxNode) -> list[Expr]:
    axis, descending = node.axis("dim", -1), node.flag("descending")
    x = node["self"]
    if not node.rank():
        return [x, number(0, "int64")]
    order = node.emit(R.argsort(x, axis=axis, descending=descending, dtype="int64"))
    return [R.gather_elements(x, order, axis=axis), order]


@torch_op("argsort")
def arg_sort(node: FxNode) -> Expr:
    axis, descending = node.axis("dim", -1), node.flag("descending")
    return R.argsort(node["self"], axis=axis, descending=descending, dtype="int64")


@torch_op("topk")
def top_k(node: FxNode) -> list[Expr]:
    """Builds topk; a symbolic number of elements is taken from all of them in order."""
    x, count = node["self"], node.size("k")
    if not node.rank():
        return [x, number(0, "int64")]
    axis, largest = node.axis("dim", -1), node.flag("largest", True)
    is_static = isinstance(count, int) and count > 0
    k = count if is_static else -1
    result = node.emit(R.topk(x, k=k, axis=axis, largest=largest, dtype="int64"))
    parts = [result[0], result[1]]
    return parts if is_static else [R.strided_slice(p, [axis], (0,), (count,)) for p in parts]


# ---- order statistics


def _is_over_all(node: FxNode) -> bool:
    return node.spec.target.endswith("median.default")


def _operand(node: FxNode) -> tuple[Expr, int]:
    """Returns the operand and the axis of an order statistic; without an axis, it is flattened."""
    is_flat = _is_over_all(node) or not node.rank()
    x = R.reshape(node["self"], (product(node.dims()),)) if is_flat else node["self"]
    return node.emit(x), 0 if is_flat else node.axis("dim", -1)


def _element(node: FxNode, x: Expr, position: Expr, axis: int) -> Any:
    """Returns the elements of `x` at a position along an axis, and the positions.

    The position has size 1 along the axis. The result over all elements is the value alone.
    """
    position = node.emit(position)
    value = R.gather_elements(x, position, axis=axis)
    if _is_over_all(node):
        return R.reshape(value, ())
    if not node.rank():
        return [R.reshape(value, ()), R.reshape(position, ())]
    if node.flag("keepdim"):
        return [value, position]
    return [R.squeeze(value, [axis]), R.squeeze(position, [axis])]


def _order(node: FxNode, x: Expr, axis: int) -> Expr:
    return node.emit(R.argsort(x, axis=axis, dtype="int64"))


@torch_op("kthvalue")
def k_th(node: FxNode) -> Any:
    x, axis = _operand(node)
    k = node.plain("k")
    options = {"ret_type": "indices", "largest": False, "dtype": "int64"}
    first = node.emit(R.topk(x, k=k, axis=axis, **options))
    return _element(node, x, R.strided_slice(first, [axis], (k - 1,), (k,)), axis)


@torch_op("median")
def median(node: FxNode) -> Any:
    """Builds the median; for an even count, the lower of the two middle elements; NaN where there
    is one."""
    x, axis = _operand(node)
    position = node.emit(R.median(x, axis=axis, keepdims=True))[1]
    if is_float(node.dtype_of(x)):
        greatest = node.emit(R.argmax(x, axis=axis, keepdims=True))  # the first NaN if there is one
        value = node.emit(R.gather_elements(x, greatest, axis=axis))
        position = R.where(R.not_equal(value, value), greatest, position)
    return _element(node, x, position, axis)


@torch_op("nanmedian")
def median_without_nan(node: FxNode) -> Any:
    """Builds the lower median of the elements that are no NaN, which are sorted last."""
    x, axis = _operand(node)
    is_number = R.equal(x, x)
    count = node.emit(R.sum(cast(is_number, "int64"), axis=[axis], keepdims=True))
    rank = R.maximum(R.subtract(count, number(1, "int64")), number(0, "int64"))
    rank = node.emit(R.floor_divide(rank, number(2, "int64")))
    position = R.gather_elements(_order(node, x, axis), rank, axis=axis)
    return _element(node, x, position, axis)


@torch_op("mode")
def mode(node: FxNode) -> Any:
    """Builds the most frequent element, the least of several, with its last position.

    Equal elements are adjacent after a sort. The length of their run is counted at its end.
    """
    x, axis = _operand(node)
    size = node.dims_of(x)[axis]
    order = _order(node, x, axis)
    ordered = node.emit(R.gather_elements(x, order, axis=axis))
    zero, one = number(0, "int64"), number(1, "int64")
    before = node.emit(R.maximum(R.subtract(index_range(size), one), zero))
    is_other = R.not_equal(ordered, R.take(ordered, before, axis=axis))
    shape = [size if k == axis else 1 for k in range(len(node.dims_of(x)))]
    index = node.emit(reshape_to(index_range(size), shape))
    start = node.emit(R.cummax(R.where(is_other, index, zero), axis=axis))
    length = node.emit(R.subtract(index, start[0]))
    best = node.emit(cast(R.argmax(length, axis=axis, keepdims=True), "int64"))
    return _element(node, x, R.gather_elements(order, best, axis=axis), axis)


# ---- searches


@torch_op("bucketize")
def buckets(node: FxNode) -> Expr:
    edges = node["boundaries"]
    x = as_tensor(node.arg("self"), node.dtype_of(edges))
    return cast(R.bucketize(x, edges, right=node.flag("right")), node.out_dtype())


@torch_op("searchsorted")
def search(node: FxNode) -> Expr:
    """Builds searchsorted; a sequence of one axis serves every value.

    Of several sequences, each element is compared with each value: the position of a value is the
    number of elements before the first one that is not below it (or, from the right, above it).
    """
    edges, sorter = node["sorted_sequence"], node.get("sorter")
    if sorter is not None:
        edges = node.emit(R.gather_elements(edges, cast(sorter, "int64"), axis=-1))
    right = node.flag("right") or node.arg("side", None) == "right"
    x = as_tensor(node.arg("self"), node.dtype_of(edges))
    rank = node.rank("sorted_sequence")
    if rank == 1:
        return cast(R.bucketize(x, edges, right=right), node.out_dtype())
    is_after = R.greater if right else R.greater_equal
    after = is_after(R.expand_dims(edges, [rank - 1]), R.expand_dims(x, [rank]))
    count = R.cumsum(cast(after, "int64"), axis=rank)
    is_before = R.equal(count, number(0, "int64"))
    return cast(R.sum(cast(is_before, "int64"), axis=[rank]), node.out_dtype())
