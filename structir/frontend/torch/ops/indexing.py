"""Mappings of gather, scatter and other indexed reads and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.shapes import reordered
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import (
    as_tensor,
    cast,
    index_range,
    number,
    reshape_to,
    size_number,
)
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.dtype import is_float
from structir.ir.expr import Constant, Expr, ShapeExpr, Tuple
from structir.script import R


def from_front(node: FxNode, places: Expr, size: Dim) -> Expr:
    """Returns indices along an axis, normalized to be non-negative."""
    if isinstance(places, Constant):
        data = places.data.astype(np.int64)
        if (data >= 0).all():
            return Constant(data)
    wide = node.emit(cast(places, "int64"))
    end = R.add(wide, size_number(size))
    return R.where(R.less(wide, number(0, "int64")), end, wide)


@torch_op("embedding")
def embedding(node: FxNode) -> Expr:
    return R.take(node["weight"], cast(node["indices"], "int64"), axis=0)


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
    return R.take(flat, from_front(node, node["index"], size), axis=0)


@torch_op("gather")
def gather(node: FxNode) -> Expr:
    axis = node.axis()
    if not node.rank():
        return node["self"]
    return R.gather_elements(node["self"], cast(node["index"], "int64"), axis=axis)


@torch_op("take_along_dim")
def take_along(node: FxNode) -> Expr:
    axis = node.axis()
    places = from_front(node, node["indices"], node.dims()[axis])
    return R.gather_elements(node["self"], places, axis=axis)


# ---- several indices, some axes of which are taken whole


def _masked(node: FxNode, given: Sequence[Expr | None], x: Expr) -> list[Expr | None]:
    """Returns indices with each boolean mask replaced by the indices of its True elements."""
    result: list[Expr | None] = []
    for index in given:
        if index is None or node.dtype_of(index) not in ("bool", "uint8"):
            result.append(index)
            continue
        rank = len(node.dims_of(index))
        places = node.emit(R.nonzero(cast(index, "bool")))
        count = node.host.symbols.fresh(f"{node.spec.name}_found")
        sizes = (rank, count)
        places = node.host.builder.match_cast(places, _vector(sizes), None, node.span)
        result += [R.take(places, number(k, "int64"), axis=0) for k in range(rank)]
    return result


def _vector(sizes: tuple[Dim, ...]) -> Any:
    return R.Tensor(sizes, "int64")


def _apart(given: Sequence[Expr | None], rank: int) -> tuple[list[int], list[int], list[int]]:
    """Returns the indexed axes, the others, and the axis order of the result: the broadcast axes of
    adjacent indices replace them, others are first."""
    at = [k for k, index in enumerate(given) if index is not None]
    rest = [k for k in range(rank) if k not in at]
    adjacent = at == list(range(at[0], at[-1] + 1))
    before = [k for k in rest if k < at[0]] if adjacent else []
    return at, rest, before


@torch_op("index.Tensor", "_unsafe_index.Tensor")
def index(node: FxNode) -> Expr:
    given = _masked(node, node.arg("indices"), node["self"])
    sizes = node.dims()
    if all(i is None for i in given):
        return node["self"]
    at, rest, before = _apart(given, len(sizes))
    places = [from_front(node, given[k], sizes[k]) for k in at]  # type: ignore[arg-type]
    if len(at) == 1:
        return R.take(node["self"], places[0], axis=at[0])
    x = reordered(node["self"], [*at, *rest])
    result = node.emit(R.index_tensor(x, Tuple(tuple(places))))
    many = len(node.dims_of(result)) - len(rest)
    return reordered(result, _back(many, len(before), len(rest)))


def _back(many: int, before: int, rest: int) -> list[int]:
    """Returns the permutation that moves the broadcast axes to the position of the indexed axes."""
    others = list(range(many, many + rest))
    return [*others[:before], *range(many), *others[before:]]


@torch_op("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(node: FxNode) -> Expr:
    x = node["self"]
    given = node.arg("indices")
    values = node.operand("values", node.dtype())
    mask = _whole_mask(node, given)
    if mask is not None and len(node.dims_of(values)) == 0 and not node.flag("accumulate"):
        return R.where(mask, values, x)
    given = _masked(node, given, x)
    sizes = node.dims()
    at, rest, before = _apart(given, len(sizes))
    places = [node.emit(from_front(node, given[k], sizes[k])) for k in at]  # type: ignore[arg-type]
    order = [*at, *rest]
    shape = _broadcast(node, places)
    others = [sizes[k] for k in rest]
    many, first = len(shape), len(before)
    whole = (*others[:first], *shape, *others[first:])
    if node.dims_of(values) != whole:
        values = R.broadcast_to(values, whole)
    values = reordered(
        values, [*range(first, first + many), *range(first), *range(first + many, len(whole))]
    )
    put = R.index_put(
        reordered(x, order), Tuple(tuple(places)), values, accumulate=node.flag("accumulate")
    )
    return reordered(put, [order.index(k) for k in range(len(order))])


def _whole_mask(node: FxNode, given: Sequence[Expr | None]) -> Expr | None:
    """Returns a mask over the first axes of the operand, if it is the only index."""
    if len(given) != 1 or given[0] is None or node.dtype_of(given[0]) != "bool":
        return None
    own = node.dims_of(given[0])
    return reshape_to(given[0], (*own, *[1] * (node.rank() - len(own))))


def _broadcast(node: FxNode, places: Sequence[Expr]) -> tuple[Dim, ...]:
    total = places[0]
    for other in places[1:]:
        total = node.emit(R.add(total, other))
    return node.dims_of(total)


@torch_op("masked_select")
def masked_select(node: FxNode) -> Expr:
    sizes = node.dims() if node.rank() >= node.rank("mask") else node.dims("mask")
    mask = R.broadcast_to(node["mask"], sizes)
    x = node.emit(R.flatten(R.broadcast_to(node["self"], sizes)))
    value = _masked(node, [node.emit(R.flatten(mask))], x)[0]
    return R.take(x, value, axis=0)


@torch_op("masked_scatter")
def masked_scatter(node: FxNode) -> Expr:
    """Returns the elements of a source, one after the other, where the mask is True."""
    sizes = node.dims()
    mask = node.emit(R.flatten(R.broadcast_to(node["mask"], sizes)))
    rank = R.subtract(R.cumsum(cast(mask, "int64"), axis=0), number(1, "int64"))
    source = R.flatten(node["source"])
    at = R.maximum(rank, number(0, "int64"))
    result = R.where(mask, R.take(source, at, axis=0), R.flatten(node["self"]))
    return reshape_to(result, sizes)


@torch_op("nonzero", "argwhere")
def nonzero(node: FxNode) -> Expr:
    return R.permute_dims(R.nonzero(node["self"]), [1, 0])


@torch_op("nonzero_numpy", "where.default")
def nonzero_by_axis(node: FxNode) -> list[Any]:
    name = next(iter(node.spec.args))
    return list(_masked(node, [node.operand(name, "bool")], node[name]))


@torch_op("select.int", "select_copy.int")
def select(node: FxNode) -> Expr:
    """Returns one slice along an axis, at a known place, a size, or a place that data tell."""
    axis, position = node.axis(), node.arg("index")
    size = node.dims()[axis]
    if isinstance(position, Expr):
        return R.take(node["self"], from_front(node, position, size), axis=axis)
    position = node.whole(position)
    if not isinstance(position, int):
        return R.take(node["self"], as_tensor(position, "int64"), axis=axis)
    position = position + size if position < 0 else position
    return R.squeeze(R.strided_slice(node["self"], [axis], (position,), (position + 1,)), [axis])


# ---- writes


@torch_op("scatter", "scatter_add", "scatter_reduce")
def scatter(node: FxNode) -> Expr:
    x, index, axis = node["self"], node["index"], node.axis()
    base = node.spec.target.split(".")[1]
    how = "add" if base == "scatter_add" else node.arg("reduce", "update")
    how = {"sum": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}.get(
        how, how
    )
    own = node.dims("index")
    if "src" in node.spec.args:
        new = _corner(node, node["src"], own)
    else:
        new = R.broadcast_to(node.operand("value", node.dtype()), own)
    if not node.rank():
        return new
    index = cast(index, "int64")
    if not node.flag("include_self", True):
        x = R.scatter_elements(x, index, _neutral(node, how, own), axis=axis, reduction="update")
    if how != "mean":
        return R.scatter_elements(x, index, new, axis=axis, reduction=how)
    total = R.scatter_elements(x, index, new, axis=axis, reduction="add")
    return R.divide(total, _counts(node, index, own, axis))


def _neutral(node: FxNode, how: str, sizes: tuple[Dim, ...]) -> Expr:
    """Returns the identity element of a reduction."""
    dtype = node.dtype()
    least = -math.inf if is_float(dtype) else int(np.iinfo(dtype).min)
    most = math.inf if is_float(dtype) else int(np.iinfo(dtype).max)
    value = {"mul": 1, "max": least, "min": most}.get(how, 0)
    return R.full(ShapeExpr(sizes), number(value, dtype))


def _counts(node: FxNode, index: Expr, sizes: tuple[Dim, ...], axis: int) -> Expr:
    """Returns how many elements each mean is of."""
    dtype = node.dtype()
    first = number(int(node.flag("include_self", True)), dtype)
    counts = R.full(ShapeExpr(node.dims()), first)
    ones = R.full(ShapeExpr(sizes), number(1, dtype))
    counts = R.scatter_elements(counts, index, ones, axis=axis, reduction="add")
    return R.maximum(counts, number(1, dtype))


def _corner(node: FxNode, x: Expr, sizes: tuple[Dim, ...]) -> Expr:
    """Returns the first elements along every axis."""
    own = node.dims_of(x)
    axes = [k for k, (a, b) in enumerate(zip(own, sizes, strict=True)) if a != b]
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
    whole = node.whole(position)
    if isinstance(whole, int) and whole < 0:
        return whole + size
    return size if isinstance(whole, int) and whole >= 1 << 31 else whole


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
    base = node.spec.target.split(".")[1]
    places = from_front(node, node["index"], sizes[axis])
    rank = len(sizes)
    order = [axis, *[k for k in range(rank) if k != axis]]
    x = reordered(node["self"], order)
    if base == "index_fill":
        whole = (*node.dims("index"), *[sizes[k] for k in order[1:]])
        new = R.broadcast_to(node.operand("value", node.dtype()), whole)
    else:
        new = reordered(node["source"], order)
        factor = node.arg("alpha", 1)
        new = new if factor == 1 else R.multiply(new, as_tensor(factor, node.dtype()))
    result = R.index_put(x, Tuple((places,)), new, accumulate=base == "index_add")
    return reordered(result, [order.index(k) for k in range(rank)])


@torch_op("repeat_interleave.Tensor")
def repeated_places(node: FxNode) -> Expr:
    """Builds repeat_interleave: each index repeated as often as its element says."""
    return cast(_repeated(node, node.out_dims()[0]), node.out_dtype())


@torch_op("repeat_interleave.self_Tensor")
def repeated(node: FxNode) -> Expr:
    x, axis = node["self"], 0
    if node.arg("dim", None) is None:
        x = R.flatten(x)
    else:
        axis = node.axis()
    return R.take(x, cast(_repeated(node, node.out_dims()[axis]), "int64"), axis=axis)


def _repeated(node: FxNode, size: Dim) -> Expr:
    repeats = cast(node["repeats"], "int64")
    ends = node.emit(R.cumsum(repeats, axis=0))
    _bind_size(node, size, node.emit(R.sum(repeats, axis=[0], keepdims=True)))
    return R.bucketize(index_range(size), ends, right=True)


def _bind_size(node: FxNode, size: Dim, one: Expr) -> None:
    """Binds a symbolic size of the result to the only element of a vector."""
    if not dims.syms(size) <= node.host.builder.scopes[-1].symbols():
        shape = node.emit(R.tensor_to_shape(one))
        node.host.builder.match_cast(shape, R.Shape((size,)), node.part_name(), node.span)


@torch_op("bincount")
def bin_counts(node: FxNode) -> Expr:
    x = cast(node["self"], "int64")
    least = number(node.plain("minlength", 0) - 1, "int64")
    most = R.maximum(R.max(x, axis=[0], keepdims=True), least)
    (size,) = node.out_dims()
    _bind_size(node, size, node.emit(R.add(most, number(1, "int64"))))
    weights = node.get("weights")
    dtype = node.out_dtype()
    ones = R.full(ShapeExpr(node.dims()), number(1, dtype)) if weights is None else weights
    zeros = R.full(ShapeExpr((size,)), number(0, dtype))
    return R.scatter_elements(zeros, x, cast(ones, dtype), axis=0, reduction="add")


@torch_op("_unique2", "unique_dim")
def unique(node: FxNode) -> list[Expr]:
    """Returns different elements in order, where each went, and how many there were."""
    axis = node.plain("dim") if "dim" in node.spec.args else None
    result = node.emit(
        R.unique(
            node["self"],
            sorted=True,
            return_index=False,
            return_inverse=True,
            return_counts=True,
            axis=axis,
        )
    )
    nothing = R.full(ShapeExpr((0,)), number(0, "int64"))
    inverse, counts = cast(result[1], "int64"), cast(result[2], "int64")
    if axis is None:
        inverse = R.reshape(inverse, ShapeExpr(node.dims()))
    return [
        result[0],
        inverse if axis is not None or node.flag("return_inverse") else nothing,
        counts if node.flag("return_counts") else nothing,
    ]


@torch_op("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def embedding_bag(node: FxNode) -> list[Expr]:
    """Returns sums or means of the rows between offsets; the rest of the results nobody reads."""
    mode, passed = node.plain("mode", 0), node.arg("padding_idx", None)
    if mode not in (0, 1) or passed not in (None, -1):
        node.fail("embedding_bag with mode max or padding_idx is not supported")
    places = cast(node["indices"], "int64")
    rows = node.emit(R.take(node["weight"], places, axis=0))
    dtype, (count, width) = node.out_dtype(), node.dims_of(rows)
    weights = node.get("per_sample_weights")
    if weights is not None:
        rows = node.emit(R.multiply(rows, reshape_to(weights, (count, 1))))
    starts = cast(node["offsets"], "int64")
    after = cast(R.bucketize(index_range(count), starts, right=True), "int64")
    bag = node.emit(R.subtract(after, number(1, "int64")))
    bags = node.out_dims()[0]  # with include_last_offset the last offset is the end
    zeros = R.full(ShapeExpr((bags, width)), number(0, dtype))
    result = R.index_put(zeros, Tuple((bag,)), rows, accumulate=True)
    if mode == 1:
        none = R.full(ShapeExpr((bags,)), number(0, dtype))
        ones = R.full(ShapeExpr((count,)), number(1, dtype))
        many = R.index_put(none, Tuple((bag,)), ones, accumulate=True)
        result = R.divide(result, R.maximum(reshape_to(many, (bags, 1)), number(1, dtype)))
    rest = [R.full(ShapeExpr(node.out_dims(k)), number(0, "int64")) for k in (1, 2, 3)]
    return [result, *rest]


@torch_op("isin")
def is_in(node: FxNode) -> Expr:
    rank = node.rank("elements")
    tests = R.flatten(node["test_elements"])
    value = R.equal(R.expand_dims(node["elements"], [rank]), tests)
    result = R.astype(R.max(R.astype(value, "int8"), axis=[rank]), "bool")
    return R.logical_not(result) if node.flag("invert") else result
