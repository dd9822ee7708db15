"""Mappings of QR, eigenvalue and singular value decompositions, and of pseudoinverses."""

from __future__ import annotations

import sys

from structir.frontend.scalars import number, size_number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.linalg import transposed
from structir.frontend.torch.registry import torch_op
from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.script import R

EPSILON = {"float32": 2.0**-23, "float64": sys.float_info.epsilon}


@torch_op("linalg_qr")
def orthogonal_factors(node: FxNode) -> list[Expr]:
    """Builds the factors; in the mode "r", the first result is an empty vector."""
    mode = node.arg("mode", "reduced")
    result = R.linalg.qr(node["A"], mode="complete" if mode == "complete" else "reduced")
    result = node.emit(result)
    empty = R.full(ShapeExpr((0,)), number(0, node.dtype("A")))
    return [node.emit(empty if mode == "r" else result[0]), node.emit(result[1])]


@torch_op("qr")
def orthogonal_factors_of_tensor(node: FxNode) -> list[Expr]:
    mode = "reduced" if node.flag("some", True) else "complete"
    result = node.emit(R.linalg.qr(node["self"], mode=mode))
    return [node.emit(result[0]), node.emit(result[1])]


def _singular_values(node: FxNode, matrix: Expr, is_full: bool = False) -> list[Expr]:
    result = node.emit(R.linalg.svd(matrix, full_matrices=is_full))
    return [node.emit(result[k]) for k in range(3)]


@torch_op("linalg_svd", "_linalg_svd")
def singular_value_decomposition(node: FxNode) -> list[Expr]:
    is_default_full = "_linalg" not in node.spec.target
    return _singular_values(node, node["A"], node.flag("full_matrices", is_default_full))


@torch_op("svd")
def singular_value_decomposition_of_tensor(node: FxNode) -> list[Expr]:
    u, values, vh = _singular_values(node, node["self"], not node.flag("some", True))
    return [u, values, transposed(node, vh)]


torch_op("linalg_svdvals")(lambda node: _singular_values(node, node["A"])[1])


def _eigenvalues(node: FxNode, name: str) -> list[Expr]:
    matrix = node[name]
    if str(node.arg("UPLO", "L")).upper() == "U":
        matrix = transposed(node, matrix)
    result = node.emit(R.linalg.eigh(matrix))
    return [node.emit(result[0]), node.emit(result[1])]


@torch_op("linalg_eigh", "_linalg_eigh")
def symmetric_eigenvectors(node: FxNode) -> list[Expr]:
    name = next(iter(node.spec.args))
    return _eigenvalues(node, name)


torch_op("linalg_eigvalsh")(lambda node: _eigenvalues(node, "self")[0])


@torch_op("linalg_matrix_sqrth")
def square_root(node: FxNode) -> Expr:
    """Builds V sqrt(D) V^T of the eigenvalues D and eigenvectors V of a symmetric matrix."""
    values, vectors = _eigenvalues(node, "self")
    scaled = R.multiply(vectors, R.expand_dims(R.sqrt(values), [node.rank() - 2]))
    return R.matmul(scaled, transposed(node, vectors))


@torch_op("linalg_polar")
def polar_factors(node: FxNode) -> list[Expr]:
    """Builds U V^T and V S V^T of the singular values S and vectors U and V^T."""
    u, values, vh = _singular_values(node, node["A"])
    scaled = R.multiply(transposed(node, vh), R.expand_dims(values, [node.rank("A") - 2]))
    return [node.emit(R.matmul(u, vh)), node.emit(R.matmul(scaled, vh))]


def _operand(node: FxNode) -> Expr:
    """Returns the matrix of a pseudoinverse; of a symmetric one, torch reads the lower triangle."""
    if not node.flag("hermitian"):
        return node["self"]
    below = node.emit(R.tril(node["self"], PrimValue(-1)))
    return R.add(R.tril(node["self"]), transposed(node, below))


@torch_op("linalg_pinv", "pinverse")
def pseudoinverse(node: FxNode) -> Expr:
    """Builds the inverse of the singular values above max(atol, rtol * the largest one)."""
    u, values, vh = _singular_values(node, _operand(node))
    axis, one = node.rank() - 2, number(1, node.dtype())
    largest = R.max(values, axis=[axis], keepdims=True)
    limit = R.multiply(largest, _relative_tolerance(node))
    if node.arg("atol", None) is not None:
        limit = R.maximum(limit, _tolerance(node, "atol"))
    is_above = node.emit(R.greater(values, node.emit(limit)))
    inverse = R.divide(one, R.where(is_above, values, one))
    inverse = R.where(is_above, inverse, number(0, node.dtype()))
    scaled = R.multiply(transposed(node, vh), R.expand_dims(inverse, [axis]))
    return R.matmul(scaled, transposed(node, u))


def _relative_tolerance(node: FxNode) -> Expr:
    """Returns `rtol` or `rcond`; the default is 0 with `atol`, and epsilon * max(m, n) without."""
    dtype = node.dtype()
    for name in ("rtol", "rcond"):
        if node.arg(name, None) is not None:
            return _tolerance(node, name)
    if node.arg("atol", None) is not None:
        return number(0, dtype)
    longest = R.maximum(*[size_number(size, dtype) for size in node.dims()[-2:]])
    return R.multiply(longest, number(EPSILON[dtype], dtype))


def _tolerance(node: FxNode, name: str) -> Expr:
    """Returns a tolerance with one more axis, of size 1, if it is a tensor with axes."""
    value = node.emit(node.operand(name, node.dtype()))
    rank = len(node.dims_of(value))
    return R.expand_dims(value, [rank]) if rank else value
