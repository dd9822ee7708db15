"""Factors of matrices and triangular systems, with the functions of `jax.lax.linalg`."""

from __future__ import annotations

from typing import Any

from structir.lax.checks import invalid
from structir.numpy import contraction, creation, elementwise, shaping
from structir.numpy import linalg as solvers
from structir.numpy.indexing import take_along_axis
from structir.script import R
from structir.tracing.array import TracedArray, emit, expression, operand
from structir.tracing.context import fields, traced
from structir.transforms.control import fori_loop, scan


@traced
def cholesky(x: Any, *, symmetrize_input: bool = True) -> TracedArray:
    """Returns the lower triangular factor of a positive definite matrix."""
    return solvers.cholesky(x, symmetrize_input=symmetrize_input)


@traced
def lu(x: Any) -> tuple[TracedArray, TracedArray, TracedArray]:
    """Returns LU factors in one matrix, the row that each step exchanges with its own, and the
    order of the rows."""
    factors, pivots, order = fields(emit(R.linalg.lu(expression(elementwise.real(x)))).expr)
    return TracedArray(factors), TracedArray(pivots), TracedArray(order)


@traced
def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> TracedArray:
    """Returns the order of rows after the exchanges of `lu`, as int32."""
    exchanges, places = operand(pivots), creation.arange(permutation_size)

    def exchanged(step: Any, order: Any) -> Any:
        other = exchanges[..., step][..., None]
        own, moved = order[..., step][..., None], take_along_axis(order, other, -1)
        order = elementwise.where(places == other, own, order)
        return elementwise.where(places == step, moved, order)

    start = shaping.broadcast_to(places, (*exchanges.shape[:-1], permutation_size))
    return fori_loop(0, exchanges.shape[-1], exchanged, start)


@traced
def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, **hints: Any) -> Any:
    """Returns an orthogonal and a triangular factor. Raises DiagnosticError for `pivoting`."""
    if pivoting:
        raise invalid("qr: pivoting: expected False, found True")
    factors = solvers.qr(x, "complete" if full_matrices else "reduced")
    return factors.Q, factors.R


@traced
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, **hints: Any) -> Any:
    """Returns left vectors, singular values and right vectors, or with `compute_uv=False` the
    values alone in a tuple."""
    result = solvers.svd(x, full_matrices, compute_uv)
    return tuple(result) if compute_uv else result


@traced
def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True, **hints: Any) -> Any:
    """Returns the eigenvectors of a symmetric matrix, and the eigenvalues in ascending order."""
    values, vectors = solvers.eigh(x, "L" if lower else "U", symmetrize_input)
    return vectors, values


@traced
def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> TracedArray:
    """Returns the solution x of a @ x = b, or of x @ a = b without `left_side`, for a triangular
    matrix of which the other triangle is not read. `conjugate_a` is ignored."""
    matrix, right = operand(a), operand(b)
    if not left_side:
        right, transpose_a = shaping.matrix_transpose(right), not transpose_a
    result = solvers.solve_triangular(
        matrix, right, trans=int(transpose_a), lower=lower, unit_diagonal=unit_diagonal
    )
    return result if left_side else shaping.matrix_transpose(result)


@traced
def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> TracedArray:
    """Returns alpha * a @ a.T + beta * c."""
    matrix = operand(a_matrix)
    product = contraction.matmul(matrix, shaping.matrix_transpose(matrix))
    return alpha * product + beta * operand(c_matrix)


@traced
def householder_product(a: Any, taus: Any) -> TracedArray:
    """Returns the product of the reflections whose vectors are below the diagonal of `a`.

    It is I - V T V^T with T = (I + D U)^-1 D, where D has the scales, and U is the part of V^T V
    above its diagonal.
    """
    matrix, scales = operand(a), operand(taus)
    rows, columns = matrix.shape[-2:]
    count = scales.shape[-1]
    unit = creation.eye(rows, columns, dtype=matrix.dtype_name)
    vectors = (creation.tril(matrix, -1) + unit)[..., :count]
    across = shaping.matrix_transpose(vectors)
    column = scales[..., None]
    identity = creation.eye(count, dtype=matrix.dtype_name)
    system = column * creation.triu(contraction.matmul(across, vectors), 1) + identity
    core = solvers.solve_triangular(system, column * across[..., :columns])
    return unit - contraction.matmul(vectors, core)


@traced
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> TracedArray:
    """Returns the solution of tridiagonal systems, whose diagonals are along the last axis, by
    elimination and substitution. The right sides are (..., n, k)."""
    lower, diagonal, upper = (shaping.moveaxis(operand(x), -1, 0) for x in (dl, d, du))
    right = shaping.moveaxis(operand(b), -2, 0)

    def forward(state: Any, row: Any) -> Any:
        ratio, value = state
        below, own, above, target = row
        pivot = own - below * ratio
        after = above / pivot, (target - below[..., None] * value) / pivot[..., None]
        return after, after

    zeros = creation.zeros_like(diagonal[0]), creation.zeros_like(right[0])
    _, rows = scan(forward, zeros, (lower, diagonal, upper, right))

    def backward(following: Any, row: Any) -> Any:
        ratio, value = row
        x = value - ratio[..., None] * following
        return x, x

    _, solution = scan(backward, zeros[1], rows, reverse=True)
    return shaping.moveaxis(solution, 0, -2)
