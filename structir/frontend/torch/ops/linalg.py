"""Mappings of determinants, inverses, linear systems, Cholesky factors and exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence

from structir.frontend.scalars import number
from structir.frontend.torch.graph import names_of
from structir.frontend.torch.node import FxNode
from structir.frontend.torch.registry import torch_op
from structir.ir.dims import Dim
from structir.ir.expr import Expr, PrimValue, ShapeExpr
from structir.script import R

TAYLOR_DEGREE = 18  # exact to float64 for a norm of at most 1
SQUARINGS = 20  # for a norm of up to 2**20; above, the result is NaN


@torch_op("slogdet", "linalg_slogdet")
def sign_and_logarithm(node: FxNode) -> list[Expr]:
    name = next(iter(node.spec.args))
    result = node.emit(R.linalg.slogdet(node[name]))
    return [node.emit(result[0]), node.emit(result[1])]


@torch_op("det", "linalg_det")
def determinant(node: FxNode) -> Expr:
    sign, logarithm = sign_and_logarithm(node)
    return R.multiply(sign, R.exp(logarithm))


@torch_op("_linalg_det", "_linalg_slogdet")
def determinant_with_factors(node: FxNode) -> list[Expr]:
    """Builds the determinant, or its sign and logarithm. The factors are zeros unless they are
    used."""
    build = sign_and_logarithm if "slogdet" in node.spec.target else determinant
    result = build(node)
    results = result if isinstance(result, list) else [result]
    rest = range(len(results), len(names_of(node.spec.outputs)))
    if any(node.is_result_used(k) for k in rest):
        node.fail("expected a use of the determinant only, found one of the factors")
    return [*results, *[_zeros(node, k) for k in rest]]


@torch_op("inverse", "linalg_inv")
def inverse(node: FxNode) -> Expr:
    name = next(iter(node.spec.args))
    identity = R.broadcast_to(_identity(node, name), ShapeExpr(node.dims(name)))
    return R.linalg.solve(node[name], identity)


def _identity(node: FxNode, name: str) -> Expr:
    size = PrimValue(node.dims(name)[-1])
    return node.emit(R.eye(size, size, PrimValue(0), dtype=node.dtype(name)))


@torch_op("linalg_inv_ex")
def inverse_with_status(node: FxNode) -> list[Expr]:
    """Builds the inverse; a singular matrix is an error, so the status is 0."""
    return [inverse(node), _zeros(node, 1)]


def _zeros(node: FxNode, index: int) -> Expr:
    return R.full(ShapeExpr(node.out_dims(index)), number(0, node.out_dtype(index)))


def transposed(node: FxNode, x: Expr) -> Expr:
    """Returns matrices with their two axes exchanged."""
    rank = len(node.dims_of(x := node.emit(x)))
    return node.emit(R.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2]))


def solve_systems(
    node: FxNode, a: Expr, b: Expr, batch: Sequence[Dim], lower: bool | None = None
) -> Expr:
    """Returns the solution of a @ x = b, whose leading axes broadcast to `batch`.

    With `lower`, one triangle of a is read: the lower or the upper one.
    """
    a, b = [
        node.emit(R.broadcast_to(x, ShapeExpr((*batch, *node.dims_of(x)[-2:])))) for x in (a, b)
    ]
    if lower is not None:
        return R.linalg.solve_triangular(a, b, lower=lower)
    return R.linalg.solve(a, b)


@torch_op("linalg_solve")
def solution(node: FxNode) -> Expr:
    a, b = node["A"], node["B"]
    a_dims, b_dims = node.dims("A"), node.dims("B")
    rank = len(node.meta().sizes)
    is_vector = len(b_dims) == 1 or (rank == len(b_dims) and b_dims == a_dims[:-1])
    if is_vector:
        b = node.emit(R.expand_dims(b, [len(b_dims)]))
    is_left = is_vector or node.flag("left", True)
    if not is_left:
        a, b = transposed(node, a), transposed(node, b)
    batch = node.out_dims()[: -1 if is_vector else -2]
    x = solve_systems(node, a, b, batch)
    if is_vector:
        return R.squeeze(x, [len(batch) + 1])
    return x if is_left else transposed(node, x)


@torch_op("_linalg_solve_ex", "linalg_solve_ex")
def solution_with_status(node: FxNode) -> list[Expr]:
    """Builds the solution; a singular matrix is an error, so the status is 0. The factors are
    zeros unless they are used."""
    status = len(names_of(node.spec.outputs)) - 1
    if any(node.is_result_used(k) for k in range(1, status)):
        node.fail("expected a use of the solution and the status only, found one of the factors")
    return [solution(node), *[_zeros(node, k) for k in range(1, status + 1)]]


@torch_op("cholesky_solve")
def solution_of_factor(node: FxNode) -> Expr:
    """Builds the solution of (factor @ factor^T) @ x = b by two triangular systems."""
    factor = _lower_factor(node, "input2")
    batch = node.out_dims()[:-2]
    y = node.emit(solve_systems(node, factor, node["self"], batch, lower=True))
    return solve_systems(node, transposed(node, factor), y, batch, lower=False)


@torch_op("cholesky_inverse")
def inverse_of_factor(node: FxNode) -> Expr:
    factor = _lower_factor(node, "self")
    unit = _identity(node, "self")
    y = node.emit(solve_systems(node, factor, unit, node.out_dims()[:-2], lower=True))
    return R.matmul(transposed(node, y), y)


def _lower_factor(node: FxNode, name: str) -> Expr:
    """Returns a Cholesky factor in the lower triangle of a matrix."""
    if not node.flag("upper"):
        return node[name]
    return transposed(node, node[name])


def _with_diagonal(node: FxNode, name: str) -> Expr:
    """Returns a matrix, with ones on the diagonal if the node is unitriangular."""
    a = node[name]
    if not node.flag("unitriangular"):
        return a
    one = number(1, node.dtype(name))
    return node.emit(R.where(R.equal(_identity(node, name), one), one, a))


@torch_op("triangular_solve")
def triangular_solution_and_matrix(node: FxNode) -> list[Expr]:
    """Builds the solution of a @ x = b, or of a^T @ x = b, and a copy of a."""
    a, lower = _with_diagonal(node, "A"), not node.flag("upper", True)
    if node.flag("transpose"):
        a, lower = transposed(node, a), not lower
    batch = node.out_dims()[:-2]
    copy = R.broadcast_to(node["A"], ShapeExpr(node.out_dims(1)))
    return [solve_systems(node, a, node["self"], batch, lower), copy]


@torch_op("linalg_solve_triangular")
def triangular_solution(node: FxNode) -> Expr:
    """Builds the solution of a @ x = b, or of x @ a = b, for one triangle of a."""
    a, b, batch = _with_diagonal(node, "self"), node["B"], node.out_dims()[:-2]
    if node.flag("left", True):
        return solve_systems(node, a, b, batch, not node.flag("upper"))
    a, b = transposed(node, a), transposed(node, b)
    return transposed(node, solve_systems(node, a, b, batch, node.flag("upper")))


@torch_op("cholesky", "linalg_cholesky")
def cholesky_factor(node: FxNode) -> Expr:
    factor = R.linalg.cholesky(node["self"])
    return transposed(node, factor) if node.flag("upper") else factor


@torch_op("linalg_cholesky_ex")
def cholesky_with_status(node: FxNode) -> list[Expr]:
    """Builds the factor; a matrix that is not positive definite is an error, so the status is 0."""
    return [cholesky_factor(node), _zeros(node, 1)]


@torch_op("linalg_matrix_exp", "matrix_exp")
def matrix_exponential(node: FxNode) -> Expr:
    """Builds the exponential: the Taylor series of a / 2**k, whose norm is at most 1, squared k
    times."""
    a, dtype, rank = node["self"], node.dtype(), node.rank()
    row_sums = R.sum(R.abs(a), axis=[rank - 1], keepdims=True)
    norm = node.emit(R.max(row_sums, axis=[rank - 2], keepdims=True))
    logarithm = R.divide(R.log(R.maximum(norm, number(1, dtype))), number(math.log(2), dtype))
    squarings = node.emit(R.minimum(R.ceil(logarithm), number(SQUARINGS, dtype)))
    a = node.emit(R.divide(a, R.power(number(2, dtype), squarings)))
    identity = _identity(node, "self")
    result = node.emit(R.broadcast_to(identity, ShapeExpr(node.dims())))
    for k in range(TAYLOR_DEGREE, 0, -1):
        term = R.divide(R.matmul(a, result), number(k, dtype))
        result = node.emit(R.add(identity, term))
    for k in range(SQUARINGS):
        is_squared = R.less(number(k, dtype), squarings)
        result = node.emit(R.where(is_squared, R.matmul(result, result), result))
    is_in_range = R.less_equal(norm, number(2.0**SQUARINGS, dtype))
    return R.where(is_in_range, result, number(math.nan, dtype))
