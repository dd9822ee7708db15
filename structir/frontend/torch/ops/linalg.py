"""Mappings of determinants, inverses, linear systems and Cholesky factors."""

from __future__ import annotations

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import number
from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.script import R


@torch_op("slogdet", "linalg_slogdet")
def sign_and_logarithm(node: FxNode) -> list[Expr]:
    name = next(iter(node.spec.args))
    result = node.emit(R.linalg.slogdet(node[name]))
    return [node.emit(result[0]), node.emit(result[1])]


@torch_op("det", "linalg_det")
def determinant(node: FxNode) -> Expr:
    sign, logarithm = sign_and_logarithm(node)
    return R.multiply(sign, R.exp(logarithm))


@torch_op("inverse", "linalg_inv")
def inverse(node: FxNode) -> Expr:
    name = next(iter(node.spec.args))
    shape = node.dims(name)
    size, dtype = PrimValue(shape[-1]), node.dtype(name)
    identity = R.eye(size, size, PrimValue(0), dtype=dtype)
    return R.linalg.solve(node[name], R.broadcast_to(identity, ShapeExpr(shape)))


@torch_op("linalg_inv_ex")
def inverse_with_status(node: FxNode) -> list[Expr]:
    """Builds the inverse; a singular matrix is an error, so the status is 0."""
    return [inverse(node), _zeros(node, 1)]


def _zeros(node: FxNode, index: int) -> Expr:
    return R.full(ShapeExpr(node.out_dims(index)), number(0, node.out_dtype(index)))


@torch_op("linalg_solve")
def solution(node: FxNode) -> Expr:
    if not node.flag("left", True):
        node.fail("left: expected True, found False", "`torch.linalg.solve(A.mT, B.mT).mT`")
    a, b = node["A"], node["B"]
    a_dims, b_dims = node.dims("A"), node.dims("B")
    is_vector = len(node.out_dims()) == len(b_dims) and b_dims == a_dims[:-1]
    if is_vector:
        b, b_dims = node.emit(R.expand_dims(b, [len(b_dims)])), (*b_dims, 1)
    batch = node.out_dims()[: -1 if is_vector else -2]
    a = R.broadcast_to(a, ShapeExpr((*batch, *a_dims[-2:])))
    b = R.broadcast_to(b, ShapeExpr((*batch, *b_dims[-2:])))
    x = R.linalg.solve(node.emit(a), node.emit(b))
    return R.squeeze(x, [len(batch) + 1]) if is_vector else x


@torch_op("cholesky", "linalg_cholesky")
def cholesky_factor(node: FxNode) -> Expr:
    factor = R.linalg.cholesky(node["self"])
    rank = node.rank()
    if node.flag("upper"):
        return R.permute_dims(factor, [*range(rank - 2), rank - 1, rank - 2])
    return factor


@torch_op("linalg_cholesky_ex")
def cholesky_with_status(node: FxNode) -> list[Expr]:
    """Builds the factor; a matrix that is not positive definite is an error, so the status is 0."""
    return [cholesky_factor(node), _zeros(node, 1)]
