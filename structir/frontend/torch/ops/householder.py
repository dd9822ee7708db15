"""Mappings of products of Householder reflections.

The product I - tau_1 v_1 v_1^T, ... of reflections is I - V T V^T, where the columns of V are the
vectors and T = (I + D U)^-1 D, with the diagonal matrix D of the scales and the part U of V^T V
above its diagonal.
"""

from __future__ import annotations

from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.linalg import solve_systems, transposed
from structir.frontend.torch.registry import torch_op
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue
from structir.script import R


def _vectors(node: FxNode, matrix: Expr, count: Dim) -> Expr:
    """Returns the vectors of the reflections: the part below the diagonal, with ones on it."""
    *_, rows, columns = node.dims_of(matrix)
    below = R.tril(matrix, PrimValue(-1))
    whole = node.emit(R.add(below, _identity(node, rows, columns, node.dtype_of(matrix))))
    rank = len(node.dims_of(whole))
    return node.emit(R.strided_slice(whole, [rank - 1], [0], [count]))


def _identity(node: FxNode, rows: Dim, columns: Dim, dtype: str) -> Expr:
    return node.emit(R.eye(PrimValue(rows), PrimValue(columns), dtype=dtype))


def _core(node: FxNode, vectors: Expr, scales: Expr, right: Expr, is_transposed: bool) -> Expr:
    """Returns T or T^T times a matrix."""
    *batch, count = node.dims_of(scales)
    gram = node.emit(R.matmul(transposed(node, vectors), vectors))
    column = node.emit(R.expand_dims(scales, [len(batch) + 1]))
    coupling = R.multiply(column, R.triu(gram, PrimValue(1)))
    system = node.emit(R.add(coupling, _identity(node, count, count, node.dtype_of(scales))))
    if is_transposed:
        solution = solve_systems(node, transposed(node, system), right, tuple(batch))
        return R.multiply(column, solution)
    return solve_systems(node, system, node.emit(R.multiply(column, right)), tuple(batch))


@torch_op("linalg_householder_product", "orgqr")
def product_of_reflections(node: FxNode) -> Expr:
    names = ("self", "input2") if "orgqr" in node.spec.target else ("input", "tau")
    matrix, scales = (node[name] for name in names)
    *batch, rows, columns = node.dims_of(matrix)
    vectors = _vectors(node, matrix, node.dims_of(scales)[-1])
    top = R.strided_slice(vectors, [len(batch)], [0], [columns])
    core = _core(node, vectors, scales, node.emit(transposed(node, node.emit(top))), False)
    unit = _identity(node, rows, columns, node.dtype_of(matrix))
    return R.subtract(unit, R.matmul(vectors, core))


@torch_op("ormqr")
def multiplied_by_reflections(node: FxNode) -> Expr:
    matrix, scales, other = (node[name] for name in ("self", "input2", "input3"))
    is_left, is_transposed = node.flag("left", True), node.flag("transpose")
    vectors = _vectors(node, matrix, node.dims_of(scales)[-1])
    factor = other if is_left else node.emit(transposed(node, other))
    right = node.emit(R.matmul(transposed(node, vectors), factor))
    core = node.emit(_core(node, vectors, scales, right, is_transposed == is_left))
    result = node.emit(R.subtract(factor, R.matmul(vectors, core)))
    return result if is_left else transposed(node, result)
