"""Mappings of gather, scatter and other indexed reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.frontend.scalars import number, reshape_to, size_number
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.ops.shapes import reorder_axes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple
from structir.ir.requirements import condition
from structir.projections.monoid import MONOIDS
from structir.script import R


def normalize_indices(node: FxNode, indices: Expr, size: Dim) -> Expr:
    """Returns indices along an axis, normalized to be non-negative."""
    if isinstance(indices, Constant):
        data = indices.data.astype(np.int64)
        if (data >= 0).all():
            return Constant(data)
    indices64 = node.emit(cast(indices, "int64"))
    wrapped = R.add(indices64, size_number(size))
    return R.where(R.less(indices64, number(0, "int64")), wrapped, indices64)


@torch_op("embedding")
def embedding(node: FxNode) -> Expr:
    weight, indices = node["weight"], node.emit(cast(node["indices"], "int64"))
    result = R.take(weight, indices, axis=0)
    padding = node.arg("padding_idx", -1)
    if isinstance(weight, Constant) or padding == -1:
        return result
    result = node.emit(result)  # the row of the padding index has no gradient
    is_padding = R.expand_dims(R.equal(indices, number(padding, "int64")), [-1])
    return R.where(is_padding, R.grad.no_grad(result), result)


@torch_op("index_select")
def index_select(node: FxNode) -> Expr:
    axis, index = node.axis(), node["index"]
    if not node.rank():
        return node["self"]
    if node.rank("index") == 0:
        index = reshape_to(index, (1,))
    return R.take(node["self"], cast(index, "int64"), axis=axis)


@torch_op("take")
def take(node: FxNode) -> Expr:
    flat = R.flatten(node["self"])
    size = node.dims_of(node.emit(flat))[0]
    return R.take(flat, normalize_indices(node, node["index"], size), axis=0)


@torch_op("gather")
def gather(node: FxNode) -> Expr:
    axis = node.axis()
    index_dims = node.dims("index")
    if 0 in index_dims:  # the index may have another rank
        return R.full(ShapeExpr(index_dims), number(0, node.dtype()))
    if not node.rank():
        return R.broadcast_to(node["self"], index_dims)
    return R.gather_elements(node["self"], cast(node["index"], "int64"), axis=axis)


@torch_op("take_along_dim")
def take_along(node: FxNode) -> Expr:
    """Builds take_along_dim; the shapes broadcast except for the axis."""
    if "dim" not in node.spec.args or node.arg("dim") is None:
        x = node.emit(R.flatten(node["self"]))
        return R.take(x, normalize_indices(node, R.flatten(node["indices"]), node.dims_of(x)[0]), 0)
    axis = node.axis()
    data = node["self"]
    sizes, index_dims = list(node.dims()), list(node.dims("indices"))
    size, count = sizes[axis], index_dims[axis]
    indices = node.emit(normalize_indices(node, node["indices"], size))
    sizes[axis] = index_dims[axis] = 1
    if not are_equal(sizes, index_dims):
        whole = list(node.out_dims())
        whole[axis] = size
        data = R.broadcast_to(data, ShapeExpr(tuple(whole)))
        whole[axis] = count
        indices = node.emit(R.broadcast_to(indices, ShapeExpr(tuple(whole))))
    return R.gather_elements(data, indices, axis=axis)


# ---- advanced indexing


def expand_masks(node: FxNode, indices: Sequence[Expr | None], x: Expr) -> list[Expr | None]:
    """Returns indices with each boolean mask replaced by the indices of its True elements."""
    result: list[Expr | None] = []
    for index in indices:
        if index is None or node.dtype_of(index) not in ("bool", "uint8"):
            result.append(index)
            continue
        rank = len(node.dims_of(index))
        positions = node.emit(R.nonzero(cast(index, "bool")))
        count = node.host.symbols.fresh(f"{node.spec.name}_count")
        sizes = (rank, count)
        positions = node.host.builder.match_cast(positions, _vector(sizes), None, node.span)
        result += [R.take(positions, number(k, "int64"), axis=0) for k in range(rank)]
    return result


def _vector(sizes: tuple[Dim, ...]) -> Any:
    return R.Tensor(sizes, "int64")


def _split_axes(
    indices: Sequence[Expr | None], rank: int
) -> tuple[list[int], list[int], list[int]]:
    """Returns the indexed axes, the other axes, and the other axes that are first in the result.

    The broadcast axes of adjacent indices replace the indexed axes; otherwise they are first.
    """
    indexed_axes = [k for k, index in enumerate(indices) if index is not None]
    other_axes = [k for k in range(rank) if k not in indexed_axes]
    adjacent = indexed_axes == list(range(indexed_axes[0], indexed_axes[-1] + 1))
    leading = [k for k in other_axes if k < indexed_axes[0]] if adjacent else []
    return indexed_axes, other_axes, leading


@torch_op("index.Tensor", "_unsafe_index.Tensor")
def index(node: FxNode) -> Expr:
    selection = _masked_slices(node, node.arg("indices"))
    if selection is not None:
        return selection
    indices = expand_masks(node, node.arg("indices"), node["self"])
    sizes = node.dims()
    if all(i is None for i in indices):
        return node["self"]
    indexed_axes, other_axes, leading = _split_axes(indices, len(sizes))
    normalized = [normalize_indices(node, indices[k], sizes[k]) for k in indexed_axes]  # type: ignore[arg-type]
    if len(indexed_axes) == 1:
        return R.take(node["self"], normalized[0], axis=indexed_axes[0])
    x = reorder_axes(node["self"], [*indexed_axes, *other_axes])
    result = node.emit(R.index_tensor(x, Tuple(tuple(normalized))))
    index_rank = len(node.dims_of(result)) - len(other_axes)
    return reorder_axes(result, _result_order(index_rank, len(leading), len(other_axes)))


def _masked_slices(node: FxNode, indices: Sequence[Expr | None]) -> Expr | None:
    """Returns the slices that a mask selects, if it is the only index: its axes become one."""
    used = [(k, index) for k, index in enumerate(indices) if index is not None]
    if len(used) != 1 or node.dtype_of(used[0][1]) not in ("bool", "uint8"):
        return None
    ((axis, mask),) = used
    sizes, rank = node.dims(), len(node.dims_of(mask))
    merged = (*sizes[:axis], product(sizes[axis : axis + rank]), *sizes[axis + rank :])
    (positions,) = expand_masks(node, [node.emit(R.flatten(mask))], node["self"])
    return R.take(reshape_to(node["self"], merged), positions, axis=axis)


def _result_order(index_rank: int, leading: int, other_count: int) -> list[int]:
    """Returns the permutation that moves the broadcast index axes to the position of the indexed
    axes."""
    others = list(range(index_rank, index_rank + other_count))
    return [*others[:leading], *range(index_rank), *others[leading:]]


@torch_op("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(node: FxNode) -> Expr:
    x = node["self"]
    indices = node.arg("indices")
    values = node.operand("values", node.dtype())
    mask = _whole_mask(node, indices)
    if mask is not None and len(node.dims_of(values)) == 0 and not node.flag("accumulate"):
        return R.where(mask, values, x)
    indices = expand_masks(node, indices, x)
    sizes = node.dims()
    indexed_axes, other_axes, leading = _split_axes(indices, len(sizes))
    normalized = [node.emit(normalize_indices(node, indices[k], sizes[k])) for k in indexed_axes]  # type: ignore[arg-type]
    order = [*indexed_axes, *other_axes]
    index_shape = _broadcast(node, normalized)
    other_sizes = [sizes[k] for k in other_axes]
    index_rank, leading_count = len(index_shape), len(leading)
    value_shape = (*other_sizes[:leading_count], *index_shape, *other_sizes[leading_count:])
    if node.dims_of(values) != value_shape:
        values = R.broadcast_to(values, value_shape)
    values = reorder_axes(
        values,
        [
            *range(leading_count, leading_count + index_rank),
            *range(leading_count),
            *range(leading_count + index_rank, len(value_shape)),
        ],
    )
    result = R.index_put(
        reorder_axes(x, order), Tuple(tuple(normalized)), values, accumulate=node.flag("accumulate")
    )
    return reorder_axes(result, [order.index(k) for k in range(len(order))])


def _whole_mask(node: FxNode, indices: Sequence[Expr | None]) -> Expr | None:
    """Returns the mask over the first axes of the operand, if it is the only index."""
    if len(indices) != 1 or indices[0] is None or node.dtype_of(indices[0]) != "bool":
        return None
    mask_dims = node.dims_of(indices[0])
    return reshape_to(indices[0], (*mask_dims, *[1] * (node.rank() - len(mask_dims))))


def _broadcast(node: FxNode, indices: Sequence[Expr]) -> tuple[Dim, ...]:
    broadcast = indices[0]
    for index_tensor in indices[1:]:
        broadcast = node.emit(R.add(broadcast, index_tensor))
    return node.dims_of(broadcast)


@torch_op("masked_select")
def masked_select(node: FxNode) -> Expr:
    x, mask = node["self"], node["mask"]
    if not are_equal(node.dims(), node.dims("mask")):
        x = node.emit(R.where(mask, x, x))  # broadcast to the shape of both
        mask = R.broadcast_to(mask, node.dims_of(x))
    (positions,) = expand_masks(node, [node.emit(R.flatten(mask))], x)
    return R.take(node.emit(R.flatten(x)), positions, axis=0)


@torch_op("masked_scatter")
def masked_scatter(node: FxNode) -> Expr:
    """Builds masked_scatter: replaces the masked elements by consecutive elements of the source."""
    sizes = node.out_dims()
    x, mask = (R.flatten(R.broadcast_to(node[name], sizes)) for name in ("self", "mask"))
    mask = node.emit(mask)
    source_index = R.subtract(R.cumsum(cast(mask, "int64"), axis=0), number(1, "int64"))
    source = R.flatten(node["source"])
    clamped = R.maximum(source_index, number(0, "int64"))
    result = R.where(mask, R.take(source, clamped, axis=0), x)
    return reshape_to(result, sizes)


@torch_op("nonzero_numpy", "where.default")
def nonzero_by_axis(node: FxNode) -> list[Any]:
    name = next(iter(node.spec.args))
    return list(expand_masks(node, [node.operand(name, "bool")], node[name]))


@torch_op("select.int")
def select(node: FxNode) -> Expr:
    """Builds select: one slice along an axis, at a constant, symbolic or data-dependent index."""
    axis, position = node.axis(), node.arg("index")
    size = node.dims()[axis]
    if isinstance(position, Expr):
        return R.take(node["self"], normalize_indices(node, position, size), axis=axis)
    position = node.whole(position)
    if isinstance(position, int) and position < 0:
        position = position + size
        node.require([] if isinstance(size, int) else [condition(">=", position, 0)])
    if not isinstance(size, int) or not isinstance(position, int):
        return R.take(node["self"], as_tensor(position, "int64"), axis=axis)
    return R.squeeze(R.strided_slice(node["self"], [axis], (position,), (position + 1,)), [axis])


# ---- writes


@torch_op("scatter", "scatter_add", "scatter_reduce")
def scatter(node: FxNode) -> Expr:
    x, axis = node["self"], node.axis()
    op_name = node.spec.target.split(".")[1]
    reduction = "add" if op_name == "scatter_add" else node.arg("reduce", "update")
    index_dims = node.dims("index")
    if "src" in node.spec.args:
        updates = _leading_elements(node, node["src"], index_dims)
    else:
        updates = R.broadcast_to(node.operand("value", node.dtype()), index_dims)
    index = cast(node["index"], "int64")
    if node.rank():
        return _scattered(node, x, index, updates, axis, reduction)
    x, index, updates = (R.reshape(v, (1,)) for v in (x, index, updates))
    return R.reshape(_scattered(node, x, index, updates, 0, reduction), ())


REDUCTIONS = {"sum": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


def _scattered(
    node: FxNode, x: Expr, index: Expr, updates: Expr, axis: int, reduction: str
) -> Expr:
    """Combines elements of `x` along an axis with updates of the shape of the index."""
    reduction = REDUCTIONS.get(reduction, reduction)
    x, index, dtype = node.emit(x), node.emit(index), node.dtype()
    index_dims = node.dims_of(index)
    if not node.flag("include_self", True):
        x = R.scatter_elements(
            x, index, _neutral(dtype, reduction, index_dims), axis=axis, reduction="update"
        )
    if reduction != "mean":
        return R.scatter_elements(x, index, updates, axis=axis, reduction=reduction)
    total = R.scatter_elements(x, index, updates, axis=axis, reduction="add")
    divide = R.divide if is_float(dtype) else R.floor_divide
    return divide(total, _counts(node, node.dims_of(x), index, index_dims, axis))


def _neutral(dtype: str, reduction: str, sizes: tuple[Dim, ...]) -> Expr:
    """Returns the identity element of a reduction."""
    monoid = {"mul": "prod", "max": "max", "min": "min"}.get(reduction, "sum")
    value = MONOIDS[monoid].identity(dtype)
    return R.full(ShapeExpr(sizes), number(value, dtype))


def _counts(
    node: FxNode, x_dims: tuple[Dim, ...], index: Expr, sizes: tuple[Dim, ...], axis: int
) -> Expr:
    """Returns the number of elements that each mean averages."""
    dtype = node.dtype()
    initial = number(int(node.flag("include_self", True)), dtype)
    counts = R.full(ShapeExpr(x_dims), initial)
    ones = R.full(ShapeExpr(sizes), number(1, dtype))
    counts = R.scatter_elements(counts, index, ones, axis=axis, reduction="add")
    return R.maximum(counts, number(1, dtype))


def _leading_elements(node: FxNode, x: Expr, sizes: tuple[Dim, ...]) -> Expr:
    """Returns the first elements along every axis, as many as `sizes`."""
    x_dims = node.dims_of(x)
    axes = [k for k, (a, b) in enumerate(zip(x_dims, sizes, strict=True)) if a != b]
    if not axes:
        return x
    return R.strided_slice(x, axes, [0] * len(axes), [sizes[k] for k in axes])


@torch_op("slice_scatter")
def slice_scatter(node: FxNode) -> Expr:
    axis, step = node.axis("dim", 0), node.plain("step", 1)
    size = node.dims()[axis]
    start, end = node.arg("start", None), node.arg("end", None)
    first = _bound(node, 0 if start is None else start, size)
    last = size if end is None else _bound(node, end, size)
    return R.slice_scatter(node["self"], node["src"], first, last, step, axis=axis)


def _bound(node: FxNode, position: Any, size: Dim) -> Dim:
    bound = node.whole(position)
    if isinstance(bound, int) and bound < 0:
        return bound + size
    return size if isinstance(bound, int) and bound >= 1 << 31 else bound


@torch_op("select_scatter")
def select_scatter(node: FxNode) -> Expr:
    axis, position = node.axis(), node.size("index")
    position = (
        position + node.dims()[axis] if isinstance(position, int) and position < 0 else position
    )
    src = R.expand_dims(node["src"], [axis])
    return R.slice_scatter(node["self"], src, position, position + 1, 1, axis=axis)


@torch_op("index_add", "index_copy", "index_fill")
def index_write(node: FxNode) -> Expr:
    axis, sizes = node.axis(), node.dims()
    op_name = node.spec.target.split(".")[1]
    indices = normalize_indices(node, node["index"], sizes[axis])
    rank = len(sizes)
    order = [axis, *[k for k in range(rank) if k != axis]]
    x = reorder_axes(node["self"], order)
    if op_name == "index_fill":
        value_shape = (*node.dims("index"), *[sizes[k] for k in order[1:]])
        updates = R.broadcast_to(node.operand("value", node.dtype()), value_shape)
    else:
        updates = reorder_axes(node["source"], order)
        factor = node.arg("alpha", 1)
        updates = updates if factor == 1 else R.multiply(updates, as_tensor(factor, node.dtype()))
    result = R.index_put(x, Tuple((indices,)), updates, accumulate=op_name == "index_add")
    return reorder_axes(result, [order.index(k) for k in range(rank)])


@torch_op("index_reduce")
def index_reduce(node: FxNode) -> Expr:
    """Builds index_reduce: each slice of the source is combined with the slice at its index."""
    axis, source = node.axis(), node["source"]
    sizes = node.dims_of(source)
    along = [size if k == axis else 1 for k, size in enumerate(sizes)]
    index = R.broadcast_to(reshape_to(cast(node["index"], "int64"), along), ShapeExpr(sizes))
    if not node.rank():
        index, source, x = (R.reshape(v, (1,)) for v in (node["index"], source, node["self"]))
        index = cast(index, "int64")
        return R.reshape(_scattered(node, x, index, source, 0, node.arg("reduce")), ())
    return _scattered(node, node["self"], index, source, axis, node.arg("reduce"))


@torch_op("put")
def put(node: FxNode) -> Expr:
    """Builds put: writes elements at positions of the flattened tensor."""
    x = node.emit(R.flatten(node["self"]))
    index = normalize_indices(node, R.flatten(node["index"]), node.dims_of(x)[0])
    updates, reduction = R.flatten(node["source"]), "add" if node.flag("accumulate") else "update"
    result = R.scatter_elements(x, index, updates, axis=0, reduction=reduction)
    return reshape_to(result, node.dims())


@torch_op("repeat_interleave.Tensor")
def repeat_indices(node: FxNode) -> Expr:
    """Builds repeat_interleave of a count tensor: each index repeated `repeats[index]` times."""
    return cast(_repeat_indices(node, node.out_dims()[0]), node.out_dtype())


@torch_op("repeat_interleave.self_Tensor")
def repeat_elements(node: FxNode) -> Expr:
    x, axis = node["self"], 0
    if node.arg("dim", None) is None:
        x = R.flatten(x)
    else:
        axis = node.axis()
    return R.take(x, cast(_repeat_indices(node, node.out_dims()[axis]), "int64"), axis=axis)


def _repeat_indices(node: FxNode, size: Dim) -> Expr:
    repeats = cast(node["repeats"], "int64")
    ends = node.emit(R.cumsum(repeats, axis=0))
    _bind_size(node, size, node.emit(R.sum(repeats, axis=[0], keepdims=True)))
    return R.segment_ids(R.subtract(ends, repeats), ends, PrimValue(size))


def _bind_size(node: FxNode, size: Dim, vector: Expr) -> None:
    """Binds the symbols of a result size to the only element of a vector."""
    if not dims.syms(size) <= node.host.builder.scopes[-1].symbols():
        node.bind_sizes(vector, (size,))


@torch_op("bincount")
def bin_counts(node: FxNode) -> Expr:
    x = cast(node["self"], "int64")
    smallest_max = number(node.plain("minlength", 0) - 1, "int64")
    largest = R.maximum(R.max(x, axis=[0], keepdims=True), smallest_max)
    (size,) = node.out_dims()
    _bind_size(node, size, node.emit(R.add(largest, number(1, "int64"))))
    weights = node.get("weights")
    dtype = node.out_dtype()
    ones = R.full(ShapeExpr(node.dims()), number(1, dtype)) if weights is None else weights
    zeros = R.full(ShapeExpr((size,)), number(0, dtype))
    return R.scatter_elements(zeros, x, cast(ones, dtype), axis=0, reduction="add")


@torch_op("isin")
def is_in(node: FxNode) -> Expr:
    rank = node.rank("elements")
    tests = R.flatten(node["test_elements"])
    is_equal = R.equal(R.expand_dims(node["elements"], [rank]), tests)
    result = R.astype(R.max(R.astype(is_equal, "uint8"), axis=[rank]), "bool")
    return R.logical_not(result) if node.flag("invert") else result
