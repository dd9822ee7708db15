"""Write-backs of view ops: the base tensor after a write to a view; scatters to a diagonal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from structir.frontend.scalars import index_range, number, reshape_to
from structir.frontend.torch.graph import NodeSpec, names_of
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.ops.shapes import (
    is_contiguous,
    narrow_start,
    order_of,
    parts_of,
    reorder_axes,
)
from structir.frontend.torch.registry import is_view, torch_op, view_of
from structir.frontend.torch.scalars import product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, ShapeExpr, Tuple
from structir.script import R


def _may_copy(node: FxNode) -> bool:
    """Returns whether an op that usually returns a view may return a copy here."""
    name = node.spec.args["self"].name
    meta = node.scope.graph.tensors.get(name)
    symbol = node.host.symbols.dim
    return meta is None or not is_contiguous(symbol, meta.sizes, meta.strides)


@view_of("reshape", "flatten", "contiguous", "reshape_as", "ravel", copies=_may_copy)
@view_of("view.default", "view_as", "unflatten", "unsqueeze", "squeeze", "_unsafe_view")
@view_of("alias", "detach", "detach_", "lift_fresh", "positive", "lift")
@view_of("atleast_1d.default", "atleast_2d.default", "atleast_3d.default")
def write_reshaped(part: FxNode, update: Expr) -> Expr:
    return (
        update if are_equal(part.dims(), part.dims_of(update)) else reshape_to(update, part.dims())
    )


def _keeps_dtype(spec: NodeSpec, tensors: Mapping[str, Any]) -> bool:
    """Returns whether a cast returns its operand: it does not change the dtype."""
    names = [*names_of(spec.args.get("self")), *names_of(spec.outputs)]
    metas = [tensors.get(name) for name in names]
    known = [meta.dtype for meta in metas if meta is not None]
    return len(known) == 2 and known[0] == known[1] and not spec.args.get("copy", False)


@view_of("to", "type_as", condition=_keeps_dtype)
@view_of(
    *("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"),
    condition=lambda spec, _: not spec.args.get("train") or spec.args.get("p") == 0,
)
@view_of(
    *("expand", "expand_as", "broadcast_to"),
    copies=lambda node: not are_equal(node.out_dims(), node.dims()),
)
def write_same(part: FxNode, update: Expr) -> Expr:
    return update


@view_of("unfold", "as_strided")
def reject_write(part: FxNode, update: Expr) -> Expr:
    part.fail(
        "a write through this view is not supported",
        "export a functional program: `ep = ep.run_decompositions()`",
    )


@view_of("transpose", "adjoint", "permute", "t", "numpy_T", "mT", "movedim", "swapaxes", "swapdims")
def write_reordered(part: FxNode, update: Expr) -> Expr:
    order = order_of(part)
    return reorder_axes(update, [order.index(k) for k in range(len(order))])


@torch_op("resize", "resize_as")
def resize(node: FxNode) -> Expr:
    """Builds resize: the first elements in memory in another shape; further ones are 0."""
    flat, sizes = _elements_to_resize(node), node.out_dims()
    count, old = product(sizes), product(node.dims())
    if dims.at_least(old, count) is not True:
        if _is_part(node):
            node.fail("a view cannot grow", "copy it first: `x.clone().resize_(...)`")
        missing = ShapeExpr((dims.dim_max(count - old, 0),))
        zeros = R.full(missing, number(0, node.dtype()))
        flat = node.emit(R.concat(Tuple((flat, zeros)), axis=0))
    return reshape_to(R.strided_slice(flat, [0], [0], [count]), sizes)


@view_of("resize", "resize_as")
def write_resized(part: FxNode, update: Expr) -> Expr:
    count = product(part.dims())
    written = dims.dim_min(product(part.dims_of(update)), count)
    first = R.strided_slice(part.emit(R.flatten(update)), [0], [0], [written])
    rest = R.strided_slice(_elements_to_resize(part), [0], [written], [count])
    return reshape_to(R.concat(Tuple((first, rest)), axis=0), part.dims())


def _elements_to_resize(node: FxNode) -> Expr:
    """Returns the elements of a contiguous operand in the order of memory."""
    if _may_copy(node):
        node.fail("expected a contiguous tensor to resize", "`x.contiguous().resize_(...)`")
    return node.emit(R.flatten(node["self"]))


def _is_part(node: FxNode) -> bool:
    """Returns whether the operand is a view, whose memory may have further elements."""
    graph, name = node.scope.graph, node.spec.args["self"].name
    return any(name in names_of(s.outputs) and is_view(s, graph.tensors) for s in graph.nodes)


@view_of("select.int")
def write_selected(part: FxNode, update: Expr) -> Expr:
    axis, position = part.axis(), part.size("index")
    size = part.dims()[axis]
    position = position + size if isinstance(position, int) and position < 0 else position
    return update_slice(part, R.expand_dims(update, [axis]), axis, position, position + 1)


@view_of("slice.Tensor", "narrow")
def write_slice(part: FxNode, update: Expr) -> Expr:
    axis = part.axis("dim", 0)
    size = part.dims()[axis]
    if ".narrow" in part.spec.target:
        start = narrow_start(part)
        return update_slice(part, update, axis, start, start + part.size("length"))
    first, last = part.arg("start", None), part.arg("end", None)
    start = clamp_bound(part.whole(0 if first is None else first), size)
    end = size if last is None else clamp_bound(part.whole(last), size)
    return update_slice(part, update, axis, start, end, part.plain("step", 1))


def clamp_bound(position: Dim, size: Dim) -> Dim:
    """Returns a slice bound normalized to [0, size]."""
    if isinstance(position, int) and position < 0:
        position = dims.dim_max(position + size, 0)
    return position if dims.at_least(size, position) is True else dims.dim_min(position, size)


def update_slice(
    part: FxNode, update: Expr, axis: int, start: Dim, end: Dim, step: int = 1
) -> Expr:
    """Returns the base with new elements from `start` to `end` (exclusive)."""
    base = part["self"]
    size = part.dims()[axis]
    if step != 1:
        return R.slice_scatter(base, update, start, end, step, axis=axis)
    if dims.equal(start, 0) is True and dims.equal(end, size) is True:
        return update
    return R.slice_scatter(base, update, start, end, 1, axis=axis)


@view_of("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
def write_part(part: Any, update: Expr) -> Expr:
    axis, sizes = parts_of(part)
    start = sum(sizes[: part.result_index])
    return update_slice(part, update, axis, start, start + sizes[part.result_index])


@view_of("unbind.int")
def write_unbound(part: Any, update: Expr) -> Expr:
    axis, position = part.axis("dim", 0), part.result_index
    return update_slice(part, R.expand_dims(update, [axis]), axis, position, position + 1)


view_of("diagonal")(lambda part, update: scatter_diagonal(part, update, part.out_dims()[-1]))
torch_op("diagonal_scatter")(lambda node: scatter_diagonal(node, node["src"], node.dims("src")[-1]))


def scatter_diagonal(node: FxNode, update: Expr, count: Dim) -> Expr:
    """Returns a tensor with another diagonal, whose `count` elements are the last axis of
    `update`."""
    rank, offset = node.rank(), node.plain("offset", 0)
    first, second = node.axis("dim1", 0), node.axis("dim2", 1)
    order = [first, second, *[k for k in range(rank) if k not in (first, second)]]
    rows = R.add(index_range(count), number(max(-offset, 0), "int64"))
    columns = R.add(index_range(count), number(max(offset, 0), "int64"))
    values = reorder_axes(node.emit(update), [rank - 2, *range(rank - 2)])
    base = reorder_axes(node["self"], order)
    result = R.index_put(base, Tuple((node.emit(rows), node.emit(columns))), values)
    return reorder_axes(result, [order.index(k) for k in range(rank)])


@torch_op("fill_diagonal")
def fill_diagonal(node: FxNode) -> Expr:
    """Builds fill_diagonal of the main diagonal of all axes."""
    sizes = node.dims()
    node.require_default("wrap", False)
    is_diagonal = None
    for axis, size in enumerate(sizes[1:], start=1):
        first = reshape_to(index_range(sizes[0]), (sizes[0], *[1] * (len(sizes) - 1)))
        indices = reshape_to(index_range(size), (size, *[1] * (len(sizes) - 1 - axis)))
        is_equal = R.equal(first, indices)
        is_diagonal = is_equal if is_diagonal is None else R.logical_and(is_diagonal, is_equal)
    value = node.operand("fill_value", node.dtype())
    return R.where(is_diagonal, value, node["self"])
