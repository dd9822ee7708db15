"""Mappings of factorizations and triangular systems."""

from __future__ import annotations

from structir.frontend.jax.equation import Equation
from structir.frontend.jax.registry import jax_primitive
from structir.frontend.scalars import dims_of
from structir.ir.expr import Expr, PrimValue
from structir.script import R


def _transposed(x: Expr) -> Expr:
    rank = len(dims_of(x))
    return R.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


@jax_primitive("cholesky")
def cholesky(equation: Equation) -> Expr:
    return R.linalg.cholesky(equation.args[0])


@jax_primitive("triangular_solve")
def triangular_solve(equation: Equation) -> Expr:
    """Builds the solution of a triangular system, of which the other triangle is not read."""
    params = equation.params
    matrix, right = equation.args
    lower = bool(params["lower"])
    if params["unit_diagonal"]:
        triangle = equation.emit(R.tril(matrix, -1) if lower else R.triu(matrix, 1))
        size = PrimValue(dims_of(matrix)[-1])
        dtype = matrix.struct_info.dtype
        identity = equation.emit(R.eye(size, size, PrimValue(0), dtype=dtype))
        matrix = equation.emit(R.add(triangle, identity))
    if bool(params["transpose_a"]) == bool(params["left_side"]):
        matrix, lower = equation.emit(_transposed(matrix)), not lower
    if params["left_side"]:
        return R.linalg.solve_triangular(matrix, right, lower=lower)
    columns = equation.emit(_transposed(right))
    return _transposed(equation.emit(R.linalg.solve_triangular(matrix, columns, lower=lower)))


@jax_primitive("lu")
def lu(equation: Equation) -> list[Expr]:
    parts = equation.emit(R.linalg.lu(equation.args[0]))
    return [parts[k] for k in range(3)]


@jax_primitive("qr")
def qr(equation: Equation) -> list[Expr]:
    """Builds QR factors with the signs of LAPACK."""
    mode = "complete" if equation.params["full_matrices"] else "reduced"
    pair = equation.emit(R.linalg.qr(equation.args[0], mode=mode))
    return [pair[0], pair[1]]


@jax_primitive("eigh")
def eigh(equation: Equation) -> list[Expr]:
    """Builds eigenvectors and eigenvalues; the signs of vectors may differ."""
    x = equation.args[0]
    if not equation.params["lower"]:  # `R.linalg.eigh` reads the lower triangle
        x = equation.emit(_transposed(x))
    pair = equation.emit(R.linalg.eigh(x))
    return [pair[1], pair[0]]


@jax_primitive("svd")
def svd(equation: Equation) -> list[Expr]:
    """Builds singular values, and the vectors of both sides if they are results."""
    parts = equation.emit(R.linalg.svd(equation.args[0]))
    if not equation.params["compute_uv"]:
        return [parts[1]]
    return [parts[1], parts[0], parts[2]]
