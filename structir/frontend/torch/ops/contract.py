"""Mappings of matrix products, Einstein sums and distances."""

from __future__ import annotations

from structir.frontend.scalars import index_range, number, size_number
from structir.frontend.torch.node import FxNode, are_equal
from structir.frontend.torch.ops.reduce import norm_along
from structir.frontend.torch.ops.shapes import reorder_axes
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast, is_number, rounded_once
from structir.ir.dims import Dim
from structir.ir.expr import Expr, Tuple
from structir.script import R


@torch_op("mm", "bmm", "matmul", "mv", "dot", "vdot", "linalg_matmul")
def matmul(node: FxNode) -> Expr:
    names = list(node.spec.args)
    return R.matmul(node[names[0]], node[names[1]])


def _product(node: FxNode, lhs: str, rhs: str, axes: list[int] | None = None) -> Expr:
    """Returns the product of two arguments, the second with its axes in this order; the sums of
    16-bit floats are in float32."""
    dtype, given = node.narrow_dtype, node.as_given()
    left, right = (given[x] if dtype is None else cast(given[x], dtype) for x in (lhs, rhs))
    right = right if axes is None else R.permute_dims(right, axes)
    return R.matmul(left, right, out_dtype=None if dtype is None else "float32")


@torch_op("linear")
@rounded_once
def linear(node: FxNode) -> Expr:
    axes = [1, 0] if node.rank("weight") == 2 else None
    result = _product(node, "input", "weight", axes)
    bias = node.get("bias")
    return result if bias is None else R.add(result, bias)


def _scale_and_add(node: FxNode, product: Expr) -> Expr:
    """Returns beta * self + alpha * product."""
    dtype = node.out_dtype()
    beta, alpha = node.arg("beta", 1), node.arg("alpha", 1)
    if not is_number(alpha, 1):
        product = R.multiply(product, as_tensor(alpha, dtype))
    if is_number(beta, 0):
        return product
    addend = cast(node["self"], dtype)
    if not is_number(beta, 1):
        addend = R.multiply(addend, as_tensor(beta, dtype))
    return R.add(product, addend)


torch_op("addmm")(rounded_once(lambda node: _scale_and_add(node, _product(node, "mat1", "mat2"))))
torch_op("addmv")(rounded_once(lambda node: _scale_and_add(node, _product(node, "mat", "vec"))))
torch_op("baddbmm")(
    rounded_once(lambda node: _scale_and_add(node, _product(node, "batch1", "batch2")))
)


@torch_op("addbmm")
@rounded_once
def add_sum_of_products(node: FxNode) -> Expr:
    return _scale_and_add(node, R.sum(_product(node, "batch1", "batch2"), axis=[0]))


torch_op("addr")(
    rounded_once(lambda node: _scale_and_add(node, R.outer(node["vec1"], node["vec2"])))
)


@torch_op("outer", "ger")
def outer(node: FxNode) -> Expr:
    names = list(node.spec.args)
    dtype = node.out_dtype()
    return R.outer(cast(node[names[0]], dtype), cast(node[names[1]], dtype))


@torch_op("einsum")
def einsum(node: FxNode) -> Expr:
    tensors = node.arg("tensors")
    return R.einsum(Tuple(tuple(tensors)), subscripts=node.arg("equation").replace(" ", ""))


@torch_op("tensordot")
def tensordot(node: FxNode) -> Expr:
    lhs, rhs = node["self"], node["other"]
    lhs_dims, rhs_dims = node.dims("self"), node.dims("other")
    lhs_axes = [node.normalize_axis(a, len(lhs_dims)) for a in node.ints("dims_self")]
    rhs_axes = [node.normalize_axis(a, len(rhs_dims)) for a in node.ints("dims_other")]
    letters_pool = [chr(ord("a") + k) for k in range(len(lhs_dims) + len(rhs_dims))]
    lhs_names, rhs_names = letters_pool[: len(lhs_dims)], letters_pool[len(lhs_dims) :]
    for a, b in zip(lhs_axes, rhs_axes, strict=True):
        rhs_names[b] = lhs_names[a]
    output_names = [n for k, n in enumerate(lhs_names) if k not in lhs_axes]
    output_names += [n for k, n in enumerate(rhs_names) if k not in rhs_axes]
    subscripts_text = f"{''.join(lhs_names)},{''.join(rhs_names)}->{''.join(output_names)}"
    return R.einsum(Tuple((lhs, rhs)), subscripts=subscripts_text)


@torch_op("_grouped_mm", ":transformers.grouped_mm_fallback.default")
def grouped_product(node: FxNode) -> Expr:
    """Builds a product whose groups of rows, columns or summed elements end at offsets."""
    lhs, rhs = (node[name] for name in list(node.spec.args)[:2])
    lhs_dims, rhs_dims = node.dims_of(lhs), node.dims_of(rhs)
    if node.get("offs") is None:
        return _in_recorded_dtype(node, R.matmul(lhs, rhs))
    if node.get("bias") is not None:
        node.fail("bias: expected None, found a tensor", "add the bias to the result")
    match len(lhs_dims), len(rhs_dims):
        case 2, 3:
            groups = _group_of_each(node, lhs_dims[0])
            return _in_recorded_dtype(node, R.grouped_matmul(lhs, rhs, groups))
        case 3, 2:
            groups = _group_of_each(node, rhs_dims[1])
            matrices = R.permute_dims(lhs, [0, 2, 1])
            product = R.grouped_matmul(R.permute_dims(rhs), matrices, groups)
            return _in_recorded_dtype(node, R.permute_dims(product))
    groups = _group_of_each(node, lhs_dims[1])
    counts = index_range(node.dims("offs")[0])
    in_group = cast(R.equal(R.expand_dims(counts, [1]), groups), node.dtype_of(lhs))
    product = R.einsum(Tuple((lhs, rhs, in_group)), subscripts="mk,kn,gk->gmn")
    return _in_recorded_dtype(node, product)


def _group_of_each(node: FxNode, size: Dim) -> Expr:
    """Returns the group of each index below `size`: the number of groups that end before it."""
    ends = cast(node["offs"], "int64")
    return node.emit(R.bucketize(index_range(size), ends, right=True))


def _in_recorded_dtype(node: FxNode, product: Expr) -> Expr:
    return cast(product, node.out_dtype())


@torch_op("bilinear")
def bilinear(node: FxNode) -> Expr:
    result = R.einsum(
        Tuple((node["input1"], node["weight"], node["input2"])), subscripts="...i,oij,...j->...o"
    )
    bias = node.get("bias")
    return result if bias is None else R.add(result, bias)


@torch_op("cosine_similarity")
@rounded_once
def cosine_similarity(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    lhs, rhs = (node.emit(cast(node[n], dtype)) for n in ("x1", "x2"))
    rank = max(node.rank("x1"), node.rank("x2"))
    if not rank:
        lhs, rhs, rank = R.reshape(lhs, (1,)), R.reshape(rhs, (1,)), 1
    axis = node.normalize_axis(node.plain("dim", 1), rank)
    if not are_equal(node.dims_of(lhs := node.emit(lhs)), node.dims_of(rhs := node.emit(rhs))):
        sizes = node.dims_of(node.emit(R.multiply(lhs, rhs)))  # of the broadcast operands
        lhs, rhs = (node.emit(R.broadcast_to(x, sizes)) for x in (lhs, rhs))
    epsilon = as_tensor(node.arg("eps", 1e-8), dtype)

    def length(x: Expr) -> Expr:
        return R.maximum(R.sqrt(R.sum(R.multiply(x, x), axis=[axis], keepdims=True)), epsilon)

    pair = R.multiply(R.divide(lhs, length(lhs)), R.divide(rhs, length(rhs)))
    return R.sum(pair, axis=[axis])


torch_op("_cdist_forward", "cdist")(lambda node: _distances(node, node["x1"], node["x2"]))


@torch_op("_pdist_forward", "pdist")
def distances_of_pairs(node: FxNode) -> Expr:
    """Builds the distance of each pair of rows i < j, in row-major order.

    Of n rows, the pairs before those of row i are i * (2 n - i - 1) / 2; row i of a pair is the
    number of rows whose pairs all come before it.
    """
    x, (count, _) = node["self"], node.dims()
    matrix = node.emit(_distances(node, x, x))
    row = index_range(count)
    twice = R.multiply(row, R.subtract(size_number(2 * count - 1), row))
    starts = node.emit(R.floor_divide(twice, number(2, "int64")))
    pair = node.emit(index_range(node.out_dims()[0]))
    after = R.bucketize(pair, starts, right=True)
    first = node.emit(R.subtract(cast(after, "int64"), number(1, "int64")))
    before = R.subtract(pair, R.take(starts, first, axis=0))
    second = R.add(R.add(before, first), number(1, "int64"))
    return R.index_tensor(matrix, Tuple((first, second)))


def _distances(node: FxNode, lhs: Expr, rhs: Expr) -> Expr:
    """Returns the distance of each row of `lhs` to each row of `rhs`.

    The rows of `rhs` become columns, so that the innermost loop reads neighbouring elements and
    sums need no horizontal addition.
    """
    lhs_rank, rhs_rank = len(node.dims_of(lhs)), len(node.dims_of(rhs))
    columns = node.emit(reorder_axes(rhs, [*range(rhs_rank - 2), rhs_rank - 1, rhs_rank - 2]))
    difference = R.subtract(R.expand_dims(lhs, [lhs_rank]), R.expand_dims(columns, [rhs_rank - 2]))
    magnitude = node.emit(R.abs(difference))
    return norm_along(node, magnitude, float(node.arg("p", 2.0)), [max(lhs_rank, rhs_rank) - 1])
