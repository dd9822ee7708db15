"""Mappings of LU factorizations, and of systems that are solved by LU factors."""

from __future__ import annotations

from structir.frontend.pivots import permutation_of_pivots
from structir.frontend.scalars import index_range, number
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.ops.linalg import solve_systems, transposed
from structir.frontend.torch.registry import torch_op
from structir.frontend.torch.scalars import cast
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.script import R


def _factors(node: FxNode) -> tuple[Expr, Expr, Expr]:
    """Returns the factors in one matrix, the pivots from 1, and the permutation of the rows."""
    if not node.flag("pivot", True):
        node.fail("pivot: expected True, found False")
    result = node.emit(R.linalg.lu(node["A"]))
    factors, pivots, permutation = (node.emit(result[k]) for k in range(3))
    return factors, R.add(pivots, number(1, "int32")), permutation


@torch_op("linalg_lu_factor_ex", "linalg_lu_factor")
def factors_and_pivots(node: FxNode) -> list[Expr]:
    """Builds the factors and the pivots; the status of a regular matrix is 0."""
    factors, pivots, _ = _factors(node)
    status = R.full(ShapeExpr(node.dims("A")[:-2]), number(0, "int32"))
    return [factors, pivots, status] if "_ex" in node.spec.target else [factors, pivots]


@torch_op("linalg_lu")
def factors(node: FxNode) -> list[Expr]:
    """Builds the permutation matrix and the two triangular factors."""
    matrix, _, permutation = _factors(node)
    return [_permutation_matrix(node, permutation), *_triangles(node, matrix)]


@torch_op("lu_unpack")
def unpacked(node: FxNode) -> list[Expr]:
    """Builds the permutation matrix and the triangular factors; empty ones if not requested."""
    empty = R.full(ShapeExpr((0,)), number(0, node.dtype("LU_data")))
    parts = [empty, empty, empty]
    if node.flag("unpack_pivots", True):
        rows = node.dims("LU_data")[-2]
        parts[0] = _permutation_matrix(node, _permutation(node, node["LU_pivots"], rows))
    if node.flag("unpack_data", True):
        parts[1:] = _triangles(node, node["LU_data"])
    return parts


@torch_op("linalg_lu_solve", "lu_solve")
def solution(node: FxNode) -> Expr:
    """Builds the solution of a @ x = b, or of a^T @ x = b or x @ a = b, by two triangles."""
    is_linalg = "linalg" in node.spec.target
    names = ("LU", "pivots", "B") if is_linalg else ("LU_data", "LU_pivots", "self")
    matrix, pivots, b = (node[name] for name in names)
    batch, rows = node.out_dims()[:-2], node.dims(names[0])[-1]
    lower, upper = _triangles(node, matrix)
    permutation = _permutation_matrix(node, _permutation(node, pivots, rows))
    is_left, is_transposed = node.flag("left", True), node.flag("adjoint")
    if not is_left:
        b, is_transposed = transposed(node, b), not is_transposed
    if is_transposed:
        y = solve_systems(node, transposed(node, upper), b, batch, lower=True)
        y = solve_systems(node, transposed(node, lower), node.emit(y), batch, lower=False)
        x = R.matmul(permutation, y)
    else:
        y = node.emit(R.matmul(transposed(node, permutation), b))
        y = solve_systems(node, lower, y, batch, lower=True)
        x = solve_systems(node, upper, node.emit(y), batch, lower=False)
    return x if is_left else transposed(node, x)


def _triangles(node: FxNode, matrix: Expr) -> list[Expr]:
    """Returns the unit lower and the upper factor, of the smaller number of columns and rows."""
    *_, rows, columns = node.dims_of(matrix)
    rank, least = len(node.dims_of(matrix)), dims.dim_min(rows, columns)
    dtype = node.dtype_of(matrix)
    below = R.strided_slice(R.tril(matrix, PrimValue(-1)), [rank - 1], [0], [least])
    size = PrimValue(least)
    identity = R.eye(PrimValue(rows), size, PrimValue(0), dtype=dtype)
    upper = R.strided_slice(R.triu(matrix), [rank - 2], [0], [least])
    return [node.emit(R.add(below, identity)), node.emit(upper)]


def _permutation(node: FxNode, pivots: Expr, rows: Dim) -> Expr:
    """Returns the row of the matrix that each row of the product is."""
    first = R.subtract(cast(pivots, "int64"), number(1, "int64"))  # torch counts from 1
    return permutation_of_pivots(node.host.builder, node.emit(first), rows)


def _permutation_matrix(node: FxNode, permutation: Expr) -> Expr:
    """Returns P with a = P @ L @ U: column i is the unit vector of row `permutation[i]`."""
    permutation = node.emit(cast(permutation, "int64"))
    *batch, rows = node.dims_of(permutation)
    row = R.reshape(index_range(rows), (rows, 1))
    is_one = R.equal(row, R.expand_dims(permutation, [len(batch)]))
    dtype = node.out_dtype()
    return node.emit(cast(is_one, dtype))
