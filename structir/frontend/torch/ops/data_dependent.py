"""Mappings of ops whose result sizes depend on elements: nonzero and unique elements, splits."""

from __future__ import annotations

from typing import Any

from structir.frontend.scalars import index_range, number, reshape_to, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.indexing import expand_masks
from structir.frontend.torch.ops.shapes import parts_of, slice_between, split
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir.expr import Expr, PrimValue, ShapeExpr, Tuple
from structir.script import R


@torch_op("nonzero", "argwhere")
def nonzero(node: FxNode) -> Expr:
    if node.rank():
        return R.permute_dims(R.nonzero(node["self"]), [1, 0])
    positions = node.emit(R.permute_dims(R.nonzero(R.reshape(node["self"], (1,))), [1, 0]))
    return R.strided_slice(positions, [1], [0], [0])  # a scalar has no coordinates


@torch_op("nonzero_static")
def nonzero_of_size(node: FxNode) -> Expr:
    """Builds nonzero_static: the first coordinates, and then rows of the fill value."""
    size, rank = node.size("size"), node.rank()
    if not rank:
        return R.full(ShapeExpr((size, 0)), number(0, "int64"))
    is_nonzero = node.emit(R.not_equal(R.flatten(node["self"]), number(0, node.dtype())))
    position = node.emit(R.true_positions(is_nonzero, PrimValue(size)))
    is_missing = node.emit(R.less(position, number(0, "int64")))
    fill = number(node.plain("fill_value", -1), "int64")
    columns: list[Expr] = []
    for extent in reversed(node.dims()):
        extent_number = size_number(extent)
        coordinate = R.floor_mod(position, extent_number)
        position = node.emit(R.floor_divide(position, extent_number))
        columns.insert(0, R.where(is_missing, fill, coordinate))
    return R.stack(columns, axis=1)


@torch_op("_unique2", "unique_dim")
def unique(node: FxNode) -> list[Expr]:
    """Returns the sorted unique elements, the inverse indices and the counts."""
    axis = node.plain("dim") if "dim" in node.spec.args else None
    is_requested = axis is not None or node.flag("return_inverse")
    flags = {"return_inverse": is_requested, "return_counts": node.flag("return_counts")}
    result = node.emit(R.unique(node["self"], **flags, axis=axis))
    vectors = iter(range(1, 3))
    empty = R.full(ShapeExpr((0,)), number(0, "int64"))
    inverse, counts = [
        cast(result[next(vectors)], "int64") if flag else empty for flag in flags.values()
    ]
    if axis is None and flags["return_inverse"]:
        inverse = R.reshape(inverse, ShapeExpr(node.dims()))
    return [result[0] if any(flags.values()) else result, inverse, counts]


@torch_op("unique_consecutive")
def unique_consecutive(node: FxNode) -> list[Expr]:
    """Builds the first element, or the first slice along an axis, of each run of equal ones."""
    x, axis = node["self"], 0
    if "dim" in node.spec.args and node.arg("dim") is not None:
        axis = node.axis()
    elif node.rank() != 1:
        x = R.flatten(x)
    x = node.emit(x)
    sizes = node.dims_of(x)
    size, others = sizes[axis], [k for k in range(len(sizes)) if k != axis]
    before = R.maximum(R.subtract(index_range(size), number(1, "int64")), number(0, "int64"))
    differs = R.not_equal(x, R.take(x, before, axis=axis))
    if others:
        differs = cast(R.max(cast(differs, "int64"), axis=others), "bool")
    is_first = R.equal(index_range(size), number(0, "int64"))
    is_new = node.emit(R.logical_or(is_first, differs))
    start = expand_masks(node, [is_new], x)[0]
    assert start is not None
    inverse = R.subtract(R.cumsum(cast(is_new, "int64"), axis=0), number(1, "int64"))
    inverse = node.emit(inverse)
    (count,) = node.dims_of(node.emit(start))
    following = R.minimum(R.add(index_range(count), number(1, "int64")), size_number(count - 1))
    is_last = R.equal(index_range(count), size_number(count - 1))
    end = R.where(is_last, size_number(size), R.take(start, following, axis=0))
    counts = R.subtract(end, start)
    if len(sizes) != node.rank():
        inverse = reshape_to(inverse, node.dims())
    empty = R.full(ShapeExpr((0,)), number(0, "int64"))
    return [
        R.take(x, start, axis=axis),
        inverse if node.flag("return_inverse") else empty,
        counts if node.flag("return_counts") else empty,
    ]


@torch_op("tensor_split.tensor_indices_or_sections")
def split_at(node: FxNode) -> list[Any]:
    """Builds a split at the indices of a tensor, which are bounds of slices; of a number of parts,
    torch has recorded the sizes."""
    if not node.rank("tensor_indices_or_sections"):
        return split(node)
    axis, sizes = parts_of(node)
    zero, size = number(0, "int64"), size_number(node.dims()[axis])
    index = node.emit(cast(node["tensor_indices_or_sections"], "int64"))
    index = R.where(R.less(index, zero), R.add(index, size), index)
    bounds = node.emit(R.minimum(R.maximum(index, zero), size))
    first = node.emit(R.concat(Tuple((R.full((1,), zero), bounds)), axis=0))
    last = R.concat(Tuple((bounds, R.expand_dims(size, [0]))), axis=0)
    lengths = node.emit(R.maximum(R.subtract(last, first), zero))
    starts = [node.host.symbols.fresh(f"{node.part_name()}_start") for _ in sizes]
    both = node.emit(R.concat(Tuple((first, lengths)), axis=0))
    node.bind_sizes(both, [*starts, *sizes])
    parts = zip(starts, sizes, strict=True)
    return [slice_between(node, node["self"], axis, start, start + n) for start, n in parts]
