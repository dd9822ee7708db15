"""Mappings of histograms: counts of elements, or sums of weights, in bins along one or several
axes."""

from __future__ import annotations

from collections.abc import Sequence

from structir.frontend.scalars import constant, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr
from structir.script import R


@torch_op("histc")
def histogram_of_equal_bins(node: FxNode) -> Expr:
    """Builds histc: counts of elements in bins of equal width; equal limits are the extremes.

    The bin of an element is computed as torch computes it, in the dtype of the elements.
    """
    dtype, count = node.out_dtype(), node.plain("bins", 100)
    x = node.emit(R.flatten(node["self"]))
    limits = [node.arg(name, 0) for name in ("min", "max")]
    fixed = [as_tensor(limit, dtype) for limit in limits]
    extremes = _widened(node, *_extremes(node, x), margin=1)
    low, high = map(node.emit, extremes if limits[0] == limits[1] else fixed)
    width = node.emit(R.subtract(high, low))
    scaled = R.divide(R.multiply(R.subtract(x, low), number(count, dtype)), width)
    inside = R.logical_and(R.less_equal(low, x), R.less_equal(x, high))
    bins = node.emit(R.astype(R.where(inside, scaled, number(0, dtype)), "int64"))
    bins = R.minimum(bins, number(count - 1, "int64"))
    return _sums(node, bins, cast(inside, dtype), (count,))


@torch_op("histogram.bin_ct")
def histogram(node: FxNode) -> list[Expr]:
    """Returns the histogram over equal bins, and their edges."""
    x = node.emit(reshape_to(node["self"], (product(node.dims()), 1)))
    edges = _equal_edges(node, x, [node.plain("bins", 100)])
    return [_histogram(node, x, edges), edges[0]]


@torch_op("histogram.bins_tensor")
def histogram_of_edges(node: FxNode) -> list[Expr]:
    x = node.emit(reshape_to(node["self"], (product(node.dims()), 1)))
    return [_histogram(node, x, [node["bins"]]), node["bins"]]


@torch_op("_histogramdd_bin_edges")
def bin_edges(node: FxNode) -> list[Expr]:
    return _equal_edges(node, _points(node), node.ints("bins"))


@torch_op("_histogramdd_from_bin_cts")
def histogram_of_points(node: FxNode) -> Expr:
    x = _points(node)
    return _histogram(node, x, _equal_edges(node, x, node.ints("bins")))


@torch_op("_histogramdd_from_bin_tensors")
def histogram_of_points_and_edges(node: FxNode) -> Expr:
    return _histogram(node, _points(node), list(node.arg("bins")))


def _points(node: FxNode) -> Expr:
    """Returns the operand as a matrix with one point per row."""
    *rows, columns = node.dims()
    return node.emit(reshape_to(node["self"], (product(rows), columns)))


def _equal_edges(node: FxNode, points: Expr, counts: Sequence[int]) -> list[Expr]:
    """Returns the edges of equal bins along each axis, between the limits of the argument `range`
    or else the extremes."""
    dtype = node.dtype_of(points)
    limits = node.arg("range", None)
    edges: list[Expr] = []
    for axis, count in enumerate(counts):
        if limits is None:
            low, high = _extremes(node, _column(node, points, axis))
        else:
            low, high = [as_tensor(v, dtype) for v in limits[2 * axis : 2 * axis + 2]]
        low, high = map(node.emit, _widened(node, low, high, margin=0.5))
        step = node.emit(R.divide(R.subtract(high, low), number(count, dtype)))
        index = constant(list(range(count + 1)), dtype)
        from_high = constant([count - k for k in range(count + 1)], dtype)
        is_low = constant([k < (count + 1) // 2 for k in range(count + 1)], "bool")
        rising = R.add(low, R.multiply(step, index))
        edges.append(
            node.emit(R.where(is_low, rising, R.subtract(high, R.multiply(step, from_high))))
        )
    return edges


def _column(node: FxNode, points: Expr, axis: int) -> Expr:
    column = R.strided_slice(points, [1], (axis,), (axis + 1,))
    return node.emit(reshape_to(column, (node.dims_of(points)[0],)))


def _histogram(node: FxNode, points: Expr, edges: Sequence[Expr]) -> Expr:
    """Returns the sums of weights in bins; with `density`, divided by their sum and the sizes of
    bins."""
    dtype, rows = node.dtype_of(points), node.dims_of(points)[0]
    counts = [node.dims_of(e)[0] - 1 for e in edges]
    position: Expr = number(0, "int64")
    inside: Expr = number(True, "bool")
    for axis, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        x = _column(node, points, axis)
        ends = [R.take(edge, size_number(k), axis=0) for k in (0, count)]
        is_within = R.logical_and(R.less_equal(ends[0], x), R.less_equal(x, ends[1]))
        inside = node.emit(R.logical_and(inside, is_within))
        bins = cast(R.bucketize(x, edge, right=True), "int64")
        last = R.minimum(R.subtract(bins, number(1, "int64")), size_number(count - 1))
        bins = R.maximum(last, number(0, "int64"))
        position = node.emit(R.add(R.multiply(position, size_number(count)), bins))
    weight = node.get("weight")
    one = number(1, dtype) if weight is None else reshape_to(weight, (rows,))
    sums = node.emit(_sums(node, position, R.where(inside, one, number(0, dtype)), counts))
    if not node.flag("density"):
        return sums
    sums = R.divide(sums, R.sum(sums))
    for axis, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        upper = R.strided_slice(edge, [0], (1,), (count + 1,))
        width = R.subtract(upper, R.strided_slice(edge, [0], (0,), (count,)))
        sizes = [count if k == axis else 1 for k in range(len(counts))]
        sums = R.divide(sums, reshape_to(node.emit(width), sizes))
    return sums


def _sums(node: FxNode, bins: Expr, weights: Expr, counts: Sequence[Dim]) -> Expr:
    """Returns the sums of weights by their flat bin."""
    total = product(counts)
    zeros = R.full(ShapeExpr((total,)), number(0, node.dtype_of(node.emit(weights))))
    sums = R.scatter_elements(zeros, bins, weights, axis=0, reduction="add")
    return sums if len(counts) == 1 else reshape_to(node.emit(sums), counts)


def _extremes(node: FxNode, x: Expr) -> tuple[Expr, Expr]:
    """Returns the least and the greatest element; 0 and 1 of no elements."""
    dtype = node.dtype_of(x)
    (size,) = node.dims_of(x)
    if dims.equal(size, 0) is True:
        return number(0, dtype), number(1, dtype)
    return node.emit(R.min(x)), node.emit(R.max(x))


def _widened(node: FxNode, low: Expr, high: Expr, margin: float) -> tuple[Expr, Expr]:
    """Returns limits, moved apart by a margin on either side if they are equal."""
    dtype = node.dtype_of(node.emit(low))
    step = node.emit(R.multiply(cast(R.equal(low, high), dtype), number(margin, dtype)))
    return R.subtract(low, step), R.add(high, step)
