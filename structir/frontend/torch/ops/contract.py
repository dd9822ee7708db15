"""Products of matrices, and sums of products."""

from __future__ import annotations

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import as_tensor, cast
from structir.ir.expr import Expr, Tuple
from structir.script import R


@torch_op("mm", "bmm", "matmul", "mv", "dot", "vdot", "linalg_matmul")
def matmul(node: FxNode) -> Expr:
    names = list(node.spec.args)
    return R.matmul(node[names[0]], node[names[1]])


@torch_op("linear")
def linear(node: FxNode) -> Expr:
    weight = node["weight"]
    rank = node.rank("weight")
    turned = R.permute_dims(weight, [1, 0]) if rank == 2 else weight
    result = R.matmul(node["input"], turned)
    bias = node.get("bias")
    return result if bias is None else R.add(result, bias)


def _added(node: FxNode, product: Expr) -> Expr:
    """Returns beta * self + alpha * product."""
    dtype = node.out_dtype()
    beta, alpha = node.arg("beta", 1), node.arg("alpha", 1)
    if alpha != 1:
        product = R.multiply(product, as_tensor(alpha, dtype))
    if beta == 0:
        return product
    own = cast(node["self"], dtype)
    own = own if beta == 1 else R.multiply(own, as_tensor(beta, dtype))
    return R.add(product, own)


@torch_op("addmm")
def add_product(node: FxNode) -> Expr:
    return _added(node, R.matmul(node["mat1"], node["mat2"]))


@torch_op("addmv")
def add_vector_product(node: FxNode) -> Expr:
    return _added(node, R.matmul(node["mat"], node["vec"]))


@torch_op("baddbmm")
def add_batch_product(node: FxNode) -> Expr:
    return _added(node, R.matmul(node["batch1"], node["batch2"]))


@torch_op("addbmm")
def add_sum_of_products(node: FxNode) -> Expr:
    return _added(node, R.sum(R.matmul(node["batch1"], node["batch2"]), axis=[0]))


@torch_op("addr")
def add_outer(node: FxNode) -> Expr:
    return _added(node, R.outer(node["vec1"], node["vec2"]))


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
    left, right = node["self"], node["other"]
    own, other = node.dims("self"), node.dims("other")
    first = [node.normalize_axis(a, len(own)) for a in node.ints("dims_self")]
    second = [node.normalize_axis(a, len(other)) for a in node.ints("dims_other")]
    names = [chr(ord("a") + k) for k in range(len(own) + len(other))]
    left_names, right_names = names[: len(own)], names[len(own) :]
    for a, b in zip(first, second, strict=True):
        right_names[b] = left_names[a]
    kept = [n for k, n in enumerate(left_names) if k not in first]
    kept += [n for k, n in enumerate(right_names) if k not in second]
    text = f"{''.join(left_names)},{''.join(right_names)}->{''.join(kept)}"
    return R.einsum(Tuple((left, right)), subscripts=text)


@torch_op("bilinear")
def bilinear(node: FxNode) -> Expr:
    result = R.einsum(
        Tuple((node["input1"], node["weight"], node["input2"])), subscripts="...i,oij,...j->...o"
    )
    bias = node.get("bias")
    return result if bias is None else R.add(result, bias)


@torch_op("cosine_similarity")
def cosine_similarity(node: FxNode) -> Expr:
    dtype = node.out_dtype()
    left, right = (node.emit(cast(node[n], dtype)) for n in ("x1", "x2"))
    axis = node.normalize_axis(node.plain("dim", 1), max(node.rank("x1"), node.rank("x2")))
    edge = as_tensor(node.arg("eps", 1e-8), dtype)

    def length(x: Expr) -> Expr:
        return R.maximum(R.sqrt(R.sum(R.multiply(x, x), axis=[axis], keepdims=True)), edge)

    pair = R.multiply(R.divide(left, length(left)), R.divide(right, length(right)))
    return R.sum(pair, axis=[axis])


@torch_op("_cdist_forward", "cdist")
def distances(node: FxNode) -> Expr:
    if float(node.arg("p", 2.0)) != 2.0:
        node.fail("only Euclidean distances are supported")
    rank = node.rank("x1")
    left = R.expand_dims(node["x1"], [rank - 1])
    right = R.expand_dims(node["x2"], [node.rank("x2") - 2])
    apart = node.emit(R.subtract(left, right))
    return R.sqrt(R.sum(R.multiply(apart, apart), axis=[rank]))
