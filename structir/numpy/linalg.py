"""Linear algebra: factors of matrices, solutions, norms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.struct_info import MAX_RANK
from structir.numpy import contraction, creation
from structir.numpy.contraction import (
    cross,
    matmul,
    matrix_power,
    outer,
    tensordot,
    vecdot,
)
from structir.numpy.creation import eye
from structir.numpy.elementwise import abs as absolute
from structir.numpy.elementwise import finfo, maximum, real, real_operands, where
from structir.numpy.reals import sqrt
from structir.numpy.reductions import max, min, sum
from structir.numpy.shaping import (
    axes_of,
    broadcast_shapes,
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    reshape,
)
from structir.script import R
from structir.tracing.array import TracedArray, emit, expression, of_rank, operand
from structir.tracing.context import fields, traced

__all__ = [
    "Eigenvalues",
    "LogDeterminant",
    "QRFactors",
    "SingularValues",
    "cross",
    "matmul",
    "matrix_power",
    "matrix_transpose",
    "outer",
    "tensordot",
    "vecdot",
]


class QRFactors(NamedTuple):
    """The factors of `qr`."""

    Q: TracedArray
    R: TracedArray


class SingularValues(NamedTuple):
    """The factors of `svd`."""

    U: TracedArray
    S: TracedArray
    Vh: TracedArray


class Eigenvalues(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: TracedArray
    eigenvectors: TracedArray


class LogDeterminant(NamedTuple):
    """The result of `slogdet`."""

    sign: TracedArray
    logabsdet: TracedArray


@traced
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> TracedArray:
    """Returns the lower or upper triangular factor of a positive definite matrix.

    With `symmetrize_input`, it is that of the symmetric part; else one triangle is read.
    """
    matrix = real(a)
    if symmetrize_input:
        matrix = (matrix + matrix_transpose(matrix)) / 2
    elif upper:
        matrix = matrix_transpose(matrix)
    factor = emit(R.linalg.cholesky(expression(matrix)))
    return matrix_transpose(factor) if upper else factor


@traced
def solve(a: Any, b: Any) -> TracedArray:
    """Returns the solution x of a @ x = b."""
    matrix, columns, is_vector = _system("solve", a, b)
    result = emit(R.linalg.solve(expression(matrix), expression(columns)))
    return result[..., 0] if is_vector else result


def _matrices(a: Any, name: str) -> TracedArray:
    """Returns an array of floats. Raises DiagnosticError for one of fewer than two axes."""
    return real(of_rank(a, f"{name}: a", 2, MAX_RANK))


def _system(name: str, a: Any, b: Any) -> tuple[TracedArray, TracedArray, bool]:
    """Returns the matrices and right sides of systems, broadcast, in one dtype, and whether the
    right sides are one vector."""
    (matrix, right), _ = real_operands(_matrices(a, name), of_rank(b, f"{name}: b", 1, MAX_RANK))
    is_vector = right.ndim == 1
    right = right[..., None] if is_vector else right
    if matrix.dims[:-2] != right.dims[:-2]:
        outer = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        matrix, right = (broadcast_to(x, (*outer, *x.shape[-2:])) for x in (matrix, right))
    return matrix, right, is_vector


@traced
def inv(a: Any) -> TracedArray:
    """Returns the inverse of a matrix."""
    matrix = _matrices(a, "inv")
    return solve(matrix, eye(matrix.shape[-1], dtype=matrix.dtype_name))


@traced
def det(a: Any) -> TracedArray:
    """Returns the determinant."""
    sign, logarithm = slogdet(a)
    return sign * _exp(logarithm)


def _exp(x: TracedArray) -> TracedArray:
    return emit(R.exp(expression(x)))


@traced
def slogdet(a: Any) -> LogDeterminant:
    """Returns the sign and the logarithm of the absolute value of the determinant."""
    sign, logarithm = fields(emit(R.linalg.slogdet(expression(real(a)))).expr)
    return LogDeterminant(TracedArray(sign), TracedArray(logarithm))


@traced
def qr(a: Any, mode: str = "reduced") -> Any:
    """Returns an orthogonal and an upper triangular factor; of mode "r" the second one alone."""
    factors = {"reduced": "reduced", "complete": "complete", "r": "reduced"}
    if mode not in factors:
        text = f"qr: mode: expected 'reduced', 'complete' or 'r', found {mode!r}"
        raise DiagnosticError(Diagnostic(text, code="E1107"))
    q, r = fields(emit(R.linalg.qr(expression(real(a)), mode=factors[mode])).expr)
    return TracedArray(r) if mode == "r" else QRFactors(TracedArray(q), TracedArray(r))


@traced
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Returns singular values in descending order, and vectors: a square matrix of them each, or
    with `full_matrices=False` as many as there are values."""
    complete = bool(full_matrices and compute_uv)
    u, s, v = fields(emit(R.linalg.svd(expression(real(a)), full_matrices=complete)).expr)
    if not compute_uv:
        return TracedArray(s)
    return SingularValues(TracedArray(u), TracedArray(s), TracedArray(v))


@traced
def eigh(a: Any, UPLO: str = "L", symmetrize_input: bool = True) -> Eigenvalues:
    """Returns the eigenvalues of a symmetric matrix in ascending order, and the vectors.

    With `symmetrize_input`, they are those of the symmetric part; else one triangle is read.
    """
    matrix = real(a)
    if symmetrize_input:
        matrix = (matrix + matrix_transpose(matrix)) / 2
    elif UPLO == "U":
        matrix = matrix_transpose(matrix)
    values, vectors = fields(emit(R.linalg.eigh(expression(matrix))).expr)
    return Eigenvalues(TracedArray(values), TracedArray(vectors))


@traced
def eigvalsh(a: Any, UPLO: str = "L", symmetrize_input: bool = True) -> TracedArray:
    """Returns the eigenvalues of a symmetric matrix in ascending order."""
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@traced
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Returns a norm of vectors or of matrices: of all elements without `ord` and `axis`."""
    array = real(x)
    if ord is None:
        return vector_norm(array, axis=axis, keepdims=keepdims)
    axes = axes_of(axis, array.ndim)
    if len(axes) == 2:
        result = matrix_norm(moveaxis(array, axes, (-2, -1)), ord=ord)
        return expand_dims(result, tuple(axes)) if keepdims else result
    return vector_norm(array, axis=axis, keepdims=keepdims, ord=ord)


@traced
def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> TracedArray:
    """Returns the norm of the elements of one or more axes, as of one vector."""
    array = real(x)
    if ord == 2:
        return sqrt(sum(array * array, axis, keepdims=keepdims))
    if ord == float("inf"):
        return max(absolute(array), axis, keepdims=keepdims)
    if ord == -float("inf"):
        return min(absolute(array), axis, keepdims=keepdims)
    if ord == 1:
        return sum(absolute(array), axis, keepdims=keepdims)
    if ord == 0:
        return sum((array != 0).astype(array.dtype_name), axis, keepdims=keepdims)
    return sum(absolute(array) ** ord, axis, keepdims=keepdims) ** (1 / ord)


@traced
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> TracedArray:
    """Returns a norm of matrices, which are the last two axes: "fro", "nuc", 1, 2, inf, and the
    least of the same values for -1, -2, -inf."""
    array = real(x)
    if ord == "fro":
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        result = sum(svdvals(array), -1)
    elif ord in (2, -2):
        result = (max if ord == 2 else min)(svdvals(array), -1)
    elif ord in (1, -1, float("inf"), -float("inf")):
        sums = sum(absolute(array), -2 if ord in (1, -1) else -1)
        result = (max if ord > 0 else min)(sums, -1)
    else:
        expected = "expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise DiagnosticError(Diagnostic(f"norm: ord: {expected}, found {ord!r}", code="E1107"))
    return expand_dims(result, (-2, -1)) if keepdims else result


@traced
def diagonal(x: Any, /, *, offset: int = 0) -> TracedArray:
    """Returns the diagonals of matrices, which are the last two axes."""
    return creation.diagonal(x, offset, -2, -1)


@traced
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> TracedArray:
    """Returns the sums of the diagonals of matrices, which are the last two axes."""
    return contraction.trace(x, offset, -2, -1, dtype)


def _rank_tolerance(matrix: TracedArray) -> TracedArray:
    """Returns the larger size of matrices times the distance of 1 to the next number."""
    larger = maximum(matrix.shape[-2], matrix.shape[-1])
    return larger * float(finfo(matrix.dtype_name).eps)


@traced
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> TracedArray:
    """Returns the pseudo-inverse; singular values below `rtol` times the largest count as 0."""
    matrix = real(a)
    u, s, v = svd(matrix, full_matrices=False)
    chosen = rcond if rtol is None else rtol
    limit = operand(10 * _rank_tolerance(matrix) if chosen is None else chosen)
    cutoff = limit[..., None] * max(s, -1, keepdims=True)
    inverse = where(s > cutoff, 1 / where(s > cutoff, s, 1), 0)
    return matmul(matrix_transpose(v) * inverse[..., None, :], matrix_transpose(u))


@traced
def lstsq(a: Any, b: Any, rcond: float | None = None) -> tuple[TracedArray, None, None, None]:
    """Returns the least squares solution of a @ x = b."""
    return matmul(pinv(a, 1e-6 if rcond is None else rcond), b), None, None, None


@traced
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> TracedArray:
    """Returns the solution of a triangular system; the other triangle is not read.

    With `trans` 1, 2, "T" or "C", of the system with the transposed matrix.
    """
    matrix, columns, is_vector = _system("solve_triangular", a, b)
    if trans not in (0, 1, 2, "N", "T", "C"):
        message = f"solve_triangular: trans: expected 0, 1, 2, 'N', 'T' or 'C', found {trans!r}"
        raise DiagnosticError(Diagnostic(message, code="E1107"))
    if unit_diagonal:
        matrix = where(eye(matrix.shape[-1]) == 1, 1, matrix)
    if trans not in (0, "N"):
        matrix, lower = matrix_transpose(matrix), not lower
    call = R.linalg.solve_triangular(expression(matrix), expression(columns), lower=bool(lower))
    return emit(call)[..., 0] if is_vector else emit(call)


@traced
def cho_solve(c_and_lower: Any, b: Any) -> TracedArray:
    """Returns the solution of a system whose matrix has a Cholesky factor, the lower one or not."""
    factor, lower = c_and_lower
    factor = operand(factor)
    if isinstance(lower, bool):
        factor = factor if lower else matrix_transpose(factor)
    else:  # a result of `cho_factor` that is an array
        factor = where(lower, factor, matrix_transpose(factor))
    first = solve_triangular(factor, b, lower=True)
    return solve_triangular(factor, first, trans=1, lower=True)


@traced
def cho_factor(a: Any, lower: bool = False) -> tuple[TracedArray, bool]:
    """Returns the Cholesky factor, and whether it is the lower one."""
    return cholesky(a, upper=not lower), lower


@traced
def multi_dot(arrays: Any) -> TracedArray:
    """Returns the product of matrices."""
    result = arrays[0]
    for array in arrays[1:]:
        result = matmul(result, array)
    return result


@traced
def svdvals(x: Any) -> TracedArray:
    """Returns the singular values, largest first."""
    return svd(x, compute_uv=False)


@traced
def cond(x: Any, p: Any = None) -> TracedArray:
    """Returns the condition number: of singular values, or of the norm `p` (1, inf or "fro")."""
    if p is None or p == 2:
        values = svdvals(x)
        return values[..., 0] / values[..., -1]
    return norm(x, p, axis=(-2, -1)) * norm(inv(x), p, axis=(-2, -1))


@traced
def matrix_rank(M: Any, rtol: Any = None) -> TracedArray:
    """Returns the number of singular values above `rtol` times the largest."""
    matrix = real(M)
    values = svdvals(matrix)
    factor = _rank_tolerance(matrix) if rtol is None else rtol
    return sum(values > values[..., :1] * factor, axis=-1)


@traced
def tensorinv(a: Any, ind: int = 2) -> TracedArray:
    """Returns the inverse of the product over axes from `ind` on, whose sizes have the product of
    those before."""
    array = operand(a)
    if not 0 < ind < array.ndim:
        text = f"tensorinv: ind: expected a number from 1 to {array.ndim - 1}, found {ind}"
        raise DiagnosticError(Diagnostic(text, code="E1107"))
    first, second = array.shape[:ind], array.shape[ind:]
    matrix = reshape(array, (math.prod(first), -1))
    return reshape(inv(matrix), (*second, *first))


@traced
def tensorsolve(a: Any, b: Any, axes: Any = None) -> TracedArray:
    """Returns x of which the product with the last axes of `a` is b."""
    array, right = operand(a), operand(b)
    if axes is not None:
        moved = axes_of(tuple(axes), array.ndim)
        array = moveaxis(array, moved, [array.ndim - len(moved) + k for k in range(len(moved))])
    sizes = array.shape[right.ndim :]
    matrix = reshape(array, (-1, math.prod(sizes)))
    return reshape(solve(matrix, reshape(right, (-1,))), sizes)
