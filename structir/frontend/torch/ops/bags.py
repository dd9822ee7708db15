"""Mappings of embedding_bag and of the largest norm of embeddings."""

from __future__ import annotations

import math

from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.reduce import norm_along
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.script import R

SUM, MEAN, MAX = range(3)


@torch_op("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def embedding_bag(node: FxNode) -> list[Expr]:
    """Builds embedding_bag: sums, means or maxima of the rows of each bag. The other three results
    are zeros: they serve torch's backward pass only, and are rejected if they are used."""
    indices = node.emit(cast(node["indices"], "int64"))
    rows = node.emit(R.take(node["weight"], indices, axis=0))
    dtype, (count, width) = node.out_dtype(), node.dims_of(rows)
    weights = node.get("per_sample_weights")
    if weights is not None:
        rows = node.emit(R.multiply(rows, reshape_to(weights, (count, 1))))
    is_counted = _is_counted(node, indices)
    neutral = number(-math.inf if node.plain("mode", SUM) == MAX else 0, dtype)
    if is_counted is not None:
        rows = node.emit(R.where(reshape_to(is_counted, (count, 1)), rows, neutral))
    bag_count = node.out_dims()[0]  # with include_last_offset the last offset is the end
    bags = R.full(ShapeExpr((bag_count, width)), neutral)
    result = _reduced(node, bags, rows, is_counted)
    if any([node.is_result_used(k) for k in (1, 2, 3)]):
        node.fail("the results for torch's backward pass are not supported")
    unused_results = [R.full(ShapeExpr(node.out_dims(k)), number(0, "int64")) for k in (1, 2, 3)]
    return [result, *unused_results]


def _is_counted(node: FxNode, indices: Expr) -> Expr | None:
    """Returns which rows are no padding; None if there is no padding."""
    padding = node.arg("padding_idx", None)
    if padding is None or (padding == -1 and "._embedding_bag" in node.spec.target):
        return None
    size = size_number(node.dims("weight")[0] if padding < 0 else 0)
    index = R.add(size, number(padding, "int64"))
    return node.emit(R.not_equal(indices, node.emit(index)))


def _reduced(node: FxNode, bags: Expr, rows: Expr, is_counted: Expr | None) -> Expr:
    """Returns the sum, mean or maximum of the rows of each bag; 0 for a bag without rows."""
    dtype, mode = node.out_dtype(), node.plain("mode", SUM)
    count, width = node.dims_of(rows)
    bag_index = _bag_index(node, count)
    if mode == MAX:
        index = R.broadcast_to(reshape_to(bag_index, (count, 1)), ShapeExpr((count, width)))
        result = node.emit(R.scatter_elements(bags, index, rows, axis=0, reduction="max"))
        return R.where(R.equal(result, number(-math.inf, dtype)), number(0, dtype), result)
    result = R.index_put(bags, Tuple((bag_index,)), rows, accumulate=True)
    if mode == SUM:
        return result
    bag_count = node.out_dims()[0]
    counted = (
        R.full(ShapeExpr((count,)), number(1, dtype))
        if is_counted is None
        else cast(is_counted, dtype)
    )
    no_counts = R.full(ShapeExpr((bag_count,)), number(0, dtype))
    counts = R.index_put(no_counts, Tuple((bag_index,)), counted, accumulate=True)
    return R.divide(result, R.maximum(reshape_to(counts, (bag_count, 1)), number(1, dtype)))


def _bag_index(node: FxNode, count: Dim) -> Expr:
    """Returns the index of the bag of each row."""
    starts = cast(node["offsets"], "int64")
    bag_number = cast(R.bucketize(index_range(count), starts, right=True), "int64")
    return node.emit(R.subtract(bag_number, number(1, "int64")))


@torch_op("embedding_renorm")
def limit_norms(node: FxNode) -> Expr:
    """Builds embedding_renorm: scales the rows at the indices to a largest norm."""
    x, dtype = node["self"], node.dtype()
    rows, _ = node.dims()
    limit = number(node.arg("max_norm"), dtype)
    norm = node.emit(norm_along(node, R.abs(x), node.arg("norm_type"), [1], keepdims=True))
    scale = R.divide(limit, R.add(norm, number(1e-7, dtype)))
    index = R.flatten(cast(node["indices"], "int64"))
    ones = R.full(ShapeExpr(node.dims_of(node.emit(index))), number(1, "int8"))
    zeros = R.full(ShapeExpr((rows,)), number(0, "int8"))
    is_used = R.scatter_elements(zeros, index, ones, axis=0, reduction="update")
    is_used = reshape_to(cast(is_used, "bool"), (rows, 1))
    is_scaled = R.logical_and(is_used, R.greater(norm, limit))
    return R.multiply(x, R.where(is_scaled, scale, number(1, dtype)))
