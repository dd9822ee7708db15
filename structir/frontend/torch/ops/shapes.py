"""Mappings of reshaping, permutation, slicing and concatenation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.frontend.scalars import index_range, reshape_to
from structir.frontend.torch.graph import names_of
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, product
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, ShapeExpr, Tuple
from structir.script import R


@torch_op(
    "view.default",
    "reshape",
    "_unsafe_view",
    "flatten",
    "unflatten",
    "view_as",
    "reshape_as",
    "ravel",
    "_reshape_alias",
)
def reshape(node: FxNode) -> Expr:
    sizes = _reshaped_sizes(node)
    return node["self"] if are_equal(sizes, node.dims()) else reshape_to(node["self"], sizes)


def _reshaped_sizes(node: FxNode) -> tuple[Dim, ...]:
    """Returns the sizes that torch recorded, or those of the arguments if it recorded others for
    the operand."""
    names = [name for name in ("shape", "size") if name in node.spec.args]
    if node.has_recorded_dims() or node.spec.target.split(".")[1] not in ARGUMENTS_OF_RESHAPES:
        return node.out_dims()
    sizes = node.sizes(names[0]) if names else _flattened(node)
    known = product([size for size in sizes if size != -1])
    rest = dims.floordiv(product(node.dims()), known)
    return tuple([rest if size == -1 else size for size in sizes])


ARGUMENTS_OF_RESHAPES = ("view", "_unsafe_view", "reshape", "flatten", "ravel")


def _flattened(node: FxNode) -> tuple[Dim, ...]:
    sizes, rank = node.dims(), node.rank()
    first = node.normalize_axis(node.plain("start_dim", 0), rank)
    last = node.normalize_axis(node.plain("end_dim", -1), rank)
    return (*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :])


@torch_op("unsqueeze")
def unsqueeze(node: FxNode) -> Expr:
    return R.expand_dims(node["self"], [node.normalize_axis(node.plain("dim"), node.rank() + 1)])


@torch_op("squeeze")
def squeeze(node: FxNode) -> Expr:
    sizes = node.dims()
    axes = list(range(len(sizes))) if "dim" not in node.spec.args else node.axes()
    ones = [a for a in axes or [] if a < len(sizes) and dims.equal(sizes[a], 1) is True]
    return R.squeeze(node["self"], ones) if ones else node["self"]


@torch_op("permute")
def permute(node: FxNode) -> Expr:
    rank = node.rank()
    return reorder_axes(node["self"], [node.normalize_axis(a, rank) for a in node.ints("dims", ())])


def reorder_axes(x: Expr, order: list[int]) -> Expr:
    """Returns a tensor with its axes in another order."""
    return x if order == sorted(order) else R.permute_dims(x, order)


def order_of(node: FxNode) -> list[int]:
    """Returns the axis permutation of a node that permutes axes."""
    rank = node.rank()
    order = list(range(rank))
    op_name = node.spec.target.split(".")[1].removesuffix("_copy")
    if op_name == "permute":
        return [node.normalize_axis(a, rank) for a in node.ints("dims", ())]
    if op_name in ("movedim", "moveaxis"):
        sources = [node.normalize_axis(a, rank) for a in node.ints("source")]
        destinations = [node.normalize_axis(a, rank) for a in node.ints("destination")]
        remaining = iter(a for a in order if a not in sources)
        source_of = dict(zip(destinations, sources, strict=True))
        return [source_of[k] if k in source_of else next(remaining) for k in order]
    if op_name in ("t", "numpy_T", "matrix_H", "mT", "mH", "adjoint"):
        return [*order[:-2], *reversed(order[-2:])] if op_name != "numpy_T" else order[::-1]
    names = ("axis0", "axis1") if op_name == "swapaxes" else ("dim0", "dim1")
    if rank:
        a, b = (node.axis(n) for n in names)
        order[a], order[b] = b, a
    return order


@torch_op(
    "transpose",
    "swapaxes",
    "swapdims",
    "t",
    "numpy_T",
    "mT",
    "mH",
    "matrix_H",
    "adjoint",
    "movedim",
    "moveaxis",
)
def reorder(node: FxNode) -> Expr:
    return reorder_axes(node["self"], order_of(node))


@torch_op("expand", "expand_as", "broadcast_to")
def expand(node: FxNode) -> Expr:
    sizes = node.out_dims() if node.has_recorded_dims() else _expanded_sizes(node)
    return node["self"] if are_equal(sizes, node.dims()) else R.broadcast_to(node["self"], sizes)


def _expanded_sizes(node: FxNode) -> tuple[Dim, ...]:
    """Returns the sizes of the arguments; -1 is the size of the operand."""
    if "size" not in node.spec.args:
        return node.dims("other") if "other" in node.spec.args else node.out_dims()
    sizes = node.sizes("size")
    own = (1,) * (len(sizes) - node.rank()) + node.dims()
    return tuple([b if a == -1 else a for a, b in zip(sizes, own, strict=True)])


@torch_op("repeat", "tile")
def repeat(node: FxNode) -> Expr:
    name = "repeats" if "repeats" in node.spec.args else "dims"
    counts, rank = node.sizes(name), node.rank()
    x = node["self"]
    if len(counts) > rank:
        x = reshape_to(x, (*[1] * (len(counts) - rank), *node.dims()))
    counts = (1,) * (rank - len(counts)) + counts
    return x if all(c == 1 for c in counts) else R.tile(x, ShapeExpr(counts))


@torch_op("repeat_interleave.self_int")
def repeat_each(node: FxNode) -> Expr:
    count, axis = node.plain("repeats"), node.arg("dim", None)
    x = node["self"]
    if axis is None:
        return reshape_to(R.repeat(R.flatten(x), count, axis=0), node.out_dims())
    return R.repeat(x, count, axis=node.axis())


# ---- slicing and splitting


@torch_op("slice.Tensor", "narrow")
def slice_axis(node: FxNode) -> Expr:
    if ".narrow" in node.spec.target:
        start = narrow_start(node)
        return slice_between(node, node["self"], node.axis(), start, start + node.size("length"))
    start, end = node.arg("start", None), node.arg("end", None)
    axis = node.axis("dim", 0)
    step = node.plain("step", 1)
    size = node.dims()[axis]
    first: Dim = 0 if start is None else node.whole(start)
    last: Dim = size if end is None else node.whole(end)
    return slice_between(node, node["self"], axis, first, last, step)


def narrow_start(node: FxNode) -> Dim:
    """Returns where a narrow begins; one below 0, as a tensor may have, counts from the end."""
    start, size = node.size("start"), node.dims()[node.axis()]
    if isinstance(start, int):
        return start + size if start < 0 else start
    is_tensor = isinstance(node.arg("start"), Expr)
    return dims.select(dims.compare("le", 0, start), start, start + size) if is_tensor else start


TO_THE_END = 1 << 31


def slice_between(node: FxNode, x: Expr, axis: int, start: Dim, end: Dim, step: int = 1) -> Expr:
    """Returns the elements from `start` to `end` (exclusive) along an axis."""
    size = node.dims_of(x)[axis]
    if isinstance(end, int) and end >= TO_THE_END:
        end = size
    if step == 1 and dims.equal(start, 0) is True and dims.equal(end, size) is True:
        return x
    return R.strided_slice(x, [axis], (start,), (end,), [step])


@torch_op("unbind.int")
def unbind(node: FxNode) -> list[Any]:
    axis = node.axis("dim", 0)
    count = len(names_of(node.spec.outputs))
    return [
        R.squeeze(R.strided_slice(node["self"], [axis], (k,), (k + 1,)), [axis])
        for k in range(count)
    ]


def parts_of(node: FxNode) -> tuple[int, list[Dim]]:
    """Returns the axis that a node splits, and the sizes of the parts."""
    axis = _split_axis(node)
    count = len(node.spec.outputs[0]) if isinstance(node.spec.outputs[0], tuple) else 1
    return axis, [node.out_dims(k)[axis] for k in range(count)]


def _split_axis(node: FxNode) -> int:
    match node.spec.target.split(".")[1]:
        case "hsplit":
            return min(node.rank() - 1, 1)
        case "vsplit":
            return 0
        case "dsplit":
            return 2
    return node.axis("dim", 0)


@torch_op(
    "split",
    "hsplit",
    "vsplit",
    "dsplit",
    "split_with_sizes",
    "chunk",
    "tensor_split",
    "unsafe_split",
    "unsafe_chunk",
)
def split(node: FxNode) -> list[Any]:
    axis, sizes = parts_of(node)
    result: list[Any] = []
    start: Dim = 0
    for size in sizes:
        result.append(slice_between(node, node["self"], axis, start, start + size))
        start = start + size
    return result


@torch_op("diagonal")
def diagonal(node: FxNode) -> Expr:
    first, second = node.axis("dim1", 0), node.axis("dim2", 1)
    return diagonal_of(node, first, second, node.plain("offset", 0))


@torch_op("linalg_diagonal")
def diagonal_of_matrices(node: FxNode) -> Expr:
    first, second = node.axis("dim1", -2, of="A"), node.axis("dim2", -1, of="A")
    return diagonal_of(node, first, second, node.plain("offset", 0), "A")


def diagonal_of(node: FxNode, first: int, second: int, offset: int, name: str = "self") -> Expr:
    """Returns the diagonal of two axes of an argument as the last axis."""
    rank = node.rank(name)
    other_axes = [a for a in range(rank) if a not in (first, second)]
    x = node.emit(reorder_axes(node[name], [first, second, *other_axes]))
    indices = index_range(node.out_dims()[-1])
    rows = R.add(indices, as_tensor(max(-offset, 0), "int64"))
    columns = R.add(indices, as_tensor(max(offset, 0), "int64"))
    result = R.index_tensor(x, Tuple((rows, columns)))
    return reorder_axes(result, [*range(1, rank - 1), 0])


@torch_op("as_strided", "as_strided_scatter")
def as_strided(node: FxNode) -> Expr:
    """Builds as_strided as a gather from the elements in the order of memory, or a scatter."""
    meta = node.scope.graph.tensors.get(node.spec.args["self"].name)
    symbol = node.host.symbols.dim
    order = None if meta is None else memory_order(symbol, meta.sizes, meta.strides)
    if order is None:
        node.fail(
            "self: expected a dense tensor, found strides with gaps or overlaps",
            "`x.contiguous().as_strided(...)`",
        )
    is_ordered = order == sorted(order)
    x = node["self"] if is_ordered else node.emit(reorder_axes(node["self"], order))
    flat, indices = R.flatten(x), node.fold(_strided_indices(node))
    if "src" not in node.spec.args:
        return R.take(flat, indices, axis=0)
    updates = R.reshape(node["src"], node.dims_of(node.emit(R.flatten(indices))))
    result = R.scatter_elements(flat, R.flatten(indices), updates, axis=0, reduction="update")
    result = reshape_to(result, node.dims_of(x))
    return result if is_ordered else reorder_axes(result, [order.index(k) for k in order])


def _strided_indices(node: FxNode) -> Expr:
    """Returns the position in memory of each element of a strided view."""
    sizes, steps = node.sizes("size"), node.sizes("stride")
    storage_offset = node.arg("storage_offset", None)
    indices: Expr = as_tensor(0 if storage_offset is None else node.whole(storage_offset), "int64")
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        trailing = [1] * (len(sizes) - 1 - axis)
        offsets = R.multiply(index_range(size), as_tensor(step, "int64"))
        indices = R.add(indices, reshape_to(offsets, (size, *trailing)))
    return indices


def memory_order(symbol: Callable[[Any], Dim], sizes: Any, strides: Any) -> list[int] | None:
    """Returns the axes of a dense tensor from the largest stride to the smallest, else None."""
    dims_of = [symbol(size) for size in sizes]
    order = [axis for axis, size in enumerate(dims_of) if dims.equal(size, 1) is True]
    pending = [axis for axis in range(len(dims_of)) if axis not in order]
    inner: list[int] = []
    step: Dim = 1
    while pending:
        axis = next((k for k in pending if dims.equal(symbol(strides[k]), step) is True), None)
        if axis is None:
            return None
        pending.remove(axis)
        inner.insert(0, axis)
        step = step * dims_of[axis]
    return [*order, *inner]


def is_contiguous(symbol: Callable[[Any], Dim], sizes: Any, strides: Any) -> bool:
    """Returns whether strides are those of a contiguous tensor."""
    order = memory_order(symbol, sizes, strides)
    if order is None:
        return False
    moved = [axis for axis in order if dims.equal(symbol(sizes[axis]), 1) is not True]
    return moved == sorted(moved)


@torch_op("unfold")
def windows(node: FxNode) -> Expr:
    """Builds unfold: windows along an axis, with their elements along a new last axis."""
    if not node.rank():
        return reshape_to(node["self"], node.out_dims())
    axis, size, step = node.axis("dimension"), node.plain("size"), node.plain("step")
    positions, value = node.out_dims()[axis], node["self"]
    if step != 1:
        length = (positions - 1) * step + size
        value = node.emit(R.strided_slice(value, begin=(0,), end=(length,), axes=[axis]))
    axes = [f"a{k}" for k in range(node.rank())]
    read = [*axes[:axis], f"{step}*{axes[axis]}+window", *axes[axis + 1 :]]
    subscripts = f"{' '.join(read)} -> {' '.join(axes)} window where window == {size}"
    return R.einsum(Tuple((value,)), subscripts=subscripts)


# ---- concatenation


@torch_op("cat", "concat", "concatenate")
def concat(node: FxNode) -> Expr:
    dtype, rank = node.out_dtype(), len(node.meta().sizes)
    operands = [x for x in node.arg("tensors") if len(node.dims_of(x)) == rank]
    parts = [cast(x, dtype) for x in operands]
    axis = node.normalize_axis(node.plain("dim", 0), rank)
    return parts[0] if len(parts) == 1 else R.concat(Tuple(tuple(parts)), axis=axis)


@torch_op("stack")
def stack(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    parts = [cast(x, dtype) for x in node.arg("tensors")]
    axis = node.normalize_axis(node.plain("dim", 0), len(node.meta().sizes))
    return R.stack(Tuple(tuple(parts)), axis=axis)


@torch_op("hstack", "vstack", "dstack", "column_stack")
def stack_by_kind(node: FxNode) -> Expr:
    rank = len(node.meta().sizes)
    kind = node.spec.target.split(".")[1]
    parts = [_with_axes(node, cast(x, node.out_dtype()), kind, rank) for x in node.arg("tensors")]
    axis = {"vstack": 0, "dstack": 2}.get(kind, 0 if rank == 1 else 1)
    return R.concat(Tuple(tuple(parts)), axis=axis)


def _with_axes(node: FxNode, x: Expr, kind: str, rank: int) -> Expr:
    x_dims = node.dims_of(x)
    if len(x_dims) == rank:
        return x
    if kind == "column_stack":
        return reshape_to(x, (*x_dims, 1))
    if kind == "dstack":
        matrix_dims = x_dims if len(x_dims) == 2 else (1, *(x_dims or (1,)))
        return reshape_to(x, (*matrix_dims, 1))
    return reshape_to(x, (*[1] * (rank - len(x_dims)), *x_dims))


@torch_op("atleast_1d", "atleast_2d", "atleast_3d")
def with_axes(node: FxNode) -> Any:
    if isinstance(node.arg(next(iter(node.spec.args))), tuple):
        return [reshape_to(x, node.out_dims(k)) for k, x in enumerate(node.arg("tensors"))]
    return reshape_to(node["self"], node.out_dims())


@torch_op("flip", "fliplr", "flipud")
def flip(node: FxNode) -> Expr:
    kind = node.spec.target.split(".")[1]
    axes = {"fliplr": [1], "flipud": [0]}.get(kind) or node.axes("dims") or []
    x = node["self"]
    for axis in axes:
        x = R.flip(x, axis=axis)
    return x


@torch_op("roll")
def roll(node: FxNode) -> Expr:
    shifts = [v if isinstance(v, int) else PrimValue(v) for v in node.sizes("shifts")]
    axes = node.ints("dims", ())
    x = node["self"]
    if not axes:
        return reshape_to(R.roll(R.flatten(x), shifts[0], [0]), node.dims())
    for shift, axis in zip(shifts, axes, strict=True):
        x = R.roll(x, shift, [node.normalize_axis(axis, node.rank())])
    return x


@torch_op("rot90")
def rotate(node: FxNode) -> Expr:
    first, second = [node.normalize_axis(a, node.rank()) for a in node.ints("dims", (0, 1))]
    order = list(range(node.rank()))
    order[first], order[second] = second, first
    x = node["self"]
    match node.plain("k", 1) % 4:
        case 1:
            return reorder_axes(R.flip(x, axis=second), order)
        case 2:
            return R.flip(R.flip(x, axis=first), axis=second)
        case 3:
            return R.flip(reorder_axes(x, order), axis=second)
    return x


@torch_op("meshgrid")
def mesh(node: FxNode) -> list[Any]:
    tensors = node.arg("tensors")
    by_columns = node.arg("indexing", "ij") == "xy"
    result = []
    for k, x in enumerate(tensors):
        sizes = node.out_dims(k)
        index = 1 - k if by_columns and k < 2 and len(tensors) > 1 else k
        trailing = [1] * (len(sizes) - 1 - index)
        result.append(R.broadcast_to(reshape_to(x, (*[1] * index, sizes[index], *trailing)), sizes))
    return result


@torch_op("pixel_shuffle")
def pixel_shuffle(node: FxNode) -> Expr:
    return R.nn.pixel_shuffle(node["self"], upscale_factor=node.plain("upscale_factor"))


@torch_op("pixel_unshuffle")
def pixel_unshuffle(node: FxNode) -> Expr:
    factor, sizes = node.plain("downscale_factor"), node.out_dims()
    *before, channels, _, _ = node.dims()
    *_, rows, columns = sizes
    k = len(before)
    split_shape = reshape_to(node["self"], (*before, channels, rows, factor, columns, factor))
    order = [*range(k), k, k + 2, k + 4, k + 1, k + 3]
    return reshape_to(reorder_axes(split_shape, order), sizes)


@torch_op("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(node: FxNode) -> Expr:
    groups, (batch, _, *rest) = node.plain("groups"), node.dims()
    group_size = dims.floordiv(node.dims()[1], groups)
    split_groups = reshape_to(node["self"], (batch, groups, group_size, *rest))
    order = [0, 2, 1, *range(3, 3 + len(rest))]
    return reshape_to(reorder_axes(split_groups, order), node.dims())
