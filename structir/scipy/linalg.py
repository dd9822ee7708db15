"""Linear algebra, with the arguments and defaults of `scipy.linalg`.

Keywords that are hints of SciPy, such as `overwrite_a` and `check_finite`, have no effect.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import structir.numpy.linalg as linalg
from structir.errors import Diagnostic, DiagnosticError
from structir.ir.struct_info import MAX_RANK
from structir.lax.linalg import lu_pivots_to_permutation
from structir.numpy.contraction import matmul
from structir.numpy.creation import arange, eye, tril, triu, zeros
from structir.numpy.elementwise import abs as absolute
from structir.numpy.elementwise import real, where
from structir.numpy.indexing import take, take_along_axis
from structir.numpy.reductions import max, sum
from structir.numpy.shaping import (
    atleast_1d,
    atleast_2d,
    broadcast_shapes,
    broadcast_to,
    concatenate,
    matrix_transpose,
)
from structir.numpy.sorting import argsort
from structir.scipy.hints import without_hints
from structir.script import R
from structir.tracing.array import TracedArray, emit, expression, of_rank, operand
from structir.tracing.context import fields, traced

cho_factor, cho_solve = without_hints(linalg.cho_factor), without_hints(linalg.cho_solve)
det, inv = without_hints(linalg.det), without_hints(linalg.inv)
solve_triangular = without_hints(linalg.solve_triangular)

# The coefficients of the Pade approximant of order 13 of the exponential function.
PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
MOST_SQUARINGS = 16  # a norm of 350,000; JAX has the same limit
LARGEST_NORM = 5.371920351148152  # of a matrix for which the approximant is exact in float64


@without_hints
@traced
def cholesky(a: Any, lower: bool = False) -> TracedArray:
    """Returns the upper triangular factor of a positive definite matrix, or the lower one; only
    that triangle of `a` is read."""
    return linalg.cholesky(a, upper=not lower, symmetrize_input=False)


@without_hints
@traced
def eigh(
    a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False, type: int = 1
) -> Any:
    """Returns the eigenvalues of a symmetric matrix in ascending order, and the vectors; both
    triangles are read, as by JAX."""
    if b is not None:
        raise _unsupported("eigh: b: generalized eigenvalues are not supported")
    values, vectors = linalg.eigh(a)
    return values if eigvals_only else (values, vectors)


@without_hints
@traced
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Returns singular vectors and values, the values in descending order."""
    factors = linalg.svd(a, full_matrices, compute_uv)
    return tuple(factors) if compute_uv else factors


@without_hints
@traced
def qr(a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    """Returns the factors of mode "full" or "economic", or of mode "r" the triangular one alone."""
    modes = {"full": "complete", "economic": "reduced"}
    if pivoting or mode not in ("full", "economic", "r"):
        raise _unsupported("qr: expected mode 'full', 'economic' or 'r', without pivoting")
    if mode == "r":
        return (linalg.qr(a, "complete")[1],)
    return tuple(linalg.qr(a, modes[mode]))


@without_hints
@traced
def solve(a: Any, b: Any, lower: bool = False, assume_a: str = "gen") -> TracedArray:
    """Returns the solution x of a @ x = b; of a matrix that is `assume_a="pos"`, "sym" or "her",
    only one triangle is read."""
    matrix = real(a)
    if assume_a not in ("gen", "pos", "sym", "her"):
        raise _unsupported(f"solve: assume_a: expected gen, pos, sym or her, found {assume_a!r}")
    if assume_a != "gen":
        half = tril(matrix) if lower else triu(matrix)
        unit = eye(matrix.shape[-1], dtype=matrix.dtype_name)
        matrix = half + matrix_transpose(half) - half * unit
    return linalg.solve(matrix, b)


@without_hints
@traced
def lu_factor(a: Any) -> tuple[TracedArray, TracedArray]:
    """Returns LU factors in one matrix, and the row that each step exchanges with its own."""
    factors, pivots, _ = fields(emit(R.linalg.lu(expression(real(a)))).expr)
    return TracedArray(factors), TracedArray(pivots)


@without_hints
@traced
def lu(a: Any, permute_l: bool = False) -> Any:
    """Returns p, l and u with p @ l @ u = a, or with `permute_l` p @ l and u."""
    matrix = real(a)
    packed, _, order = (TracedArray(x) for x in fields(emit(R.linalg.lu(expression(matrix))).expr))
    rows, columns = matrix.shape[-2:]
    count = columns if _is_smaller(columns, rows) else rows
    name = matrix.dtype_name
    lower = tril(packed[..., :count], -1) + eye(rows, count, dtype=name)
    upper = triu(packed[..., :count, :])
    positions = arange(rows)
    exchange = (order[..., None, :] == positions[:, None]).astype(name)
    return (matmul(exchange, lower), upper) if permute_l else (exchange, lower, upper)


def _is_smaller(first: Any, second: Any) -> bool:
    """Whether the first of two sizes is the smaller one. Raises DiagnosticError if unknown."""
    return bool(first < second)


@without_hints
@traced
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0) -> TracedArray:
    """Returns the solution of a system from the factors of `lu_factor`; with `trans` 1 or 2, of
    the system with the transposed matrix."""
    factors, pivots = (operand(part) for part in lu_and_piv)
    right, count = real(of_rank(b, "lu_solve: b", 1, MAX_RANK)), int(factors.shape[-1])
    is_vector = right.ndim == 1
    right = right[..., None] if is_vector else right
    size = right.shape[-2]
    if trans not in (0, 1, 2):
        raise _unsupported(f"lu_solve: trans: expected 0, 1 or 2, found {trans!r}")
    if isinstance(size, int) and size != count:
        raise _unsupported(f"lu_solve: b: expected {count} rows, found {size}")
    order = lu_pivots_to_permutation(pivots, count)
    if trans == 0:
        right = _with_rows(right, order)
        first = solve_triangular(factors, right, lower=True, unit_diagonal=True)
        result = solve_triangular(factors, first)
    else:
        first = solve_triangular(factors, right, trans=1)
        first = solve_triangular(factors, first, trans=1, lower=True, unit_diagonal=True)
        result = _with_rows(first, argsort(order))
    return result[..., 0] if is_vector else result


def _with_rows(x: TracedArray, order: TracedArray) -> TracedArray:
    """Returns matrices with their rows in an order, or in one for each matrix."""
    if order.ndim == 1:
        return take(x, order, -2)
    outer = x.shape[:-2] if order.ndim == x.ndim - 1 else order.shape[:-1]
    rows = broadcast_to(x, (*outer, *x.shape[-2:]))
    return take_along_axis(rows, order[..., None], -2)


@traced
def expm(
    A: Any, *, upper_triangular: bool = False, max_squarings: int = MOST_SQUARINGS
) -> TracedArray:
    """Returns the exponential function of square matrices; NaN of one that is so large that it
    needs more than `max_squarings` squarings. `upper_triangular` has no effect.

    Source: Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
    """
    matrix = real(A)
    norm = max(sum(absolute(matrix), -2, keepdims=True), -1, keepdims=True)
    rounds = _squarings(norm, max_squarings)
    scaled = matrix / 2.0**rounds
    unit = eye(matrix.shape[-1], dtype=matrix.dtype_name)
    second = matmul(scaled, scaled)
    fourth = matmul(second, second)
    sixth = matmul(second, fourth)
    b = PADE
    odd = b[13] * sixth + b[11] * fourth + b[9] * second
    odd = matmul(sixth, odd) + b[7] * sixth + b[5] * fourth + b[3] * second + b[1] * unit
    odd = matmul(scaled, odd)
    even = b[12] * sixth + b[10] * fourth + b[8] * second
    even = matmul(sixth, even) + b[6] * sixth + b[4] * fourth + b[2] * second + b[0] * unit
    result = linalg.solve(even - odd, even + odd)
    for step in range(max_squarings):
        result = where(step < rounds, matmul(result, result), result)
    return where(rounds > max_squarings, math.nan, result)


def _squarings(norm: TracedArray, most: int) -> TracedArray:
    """Returns how often matrices of these norms are halved, at most once more than `most`."""
    result: TracedArray = sum(
        (norm[..., None] > LARGEST_NORM * 2.0 ** np.arange(most + 1)).astype("float32"), -1
    )
    return result.astype(norm.dtype_name)


@traced
def block_diag(*arrs: Any) -> TracedArray:
    """Returns a matrix with these matrices along its diagonal and zeros elsewhere."""
    blocks = [operand(atleast_2d(block)) for block in arrs] or [operand(np.zeros((1, 0), "f"))]
    widths = [block.shape[1] for block in blocks]
    rows = []
    for index, block in enumerate(blocks):
        before = [zeros((block.shape[0], width), block.dtype_name) for width in widths[:index]]
        after = [zeros((block.shape[0], width), block.dtype_name) for width in widths[index + 1 :]]
        rows.append(concatenate([*before, block, *after], 1))
    return concatenate(rows, 0)


@traced
def toeplitz(c: Any, r: Any = None) -> TracedArray:
    """Returns the matrix with first column `c`, first row `r` and constant diagonals; a batch of
    them for arrays of several columns and rows, which are the last axis."""
    column = atleast_1d(operand(c))
    row = column if r is None else atleast_1d(operand(r))
    count, width = column.shape[-1], row.shape[-1]
    if column.dims[:-1] != row.dims[:-1]:
        outer = broadcast_shapes(column.shape[:-1], row.shape[:-1])
        column, row = (broadcast_to(x, (*outer, x.shape[-1])) for x in (column, row))
    values = concatenate([column[..., ::-1], row[..., 1:]], -1)
    return take(values, count - 1 - arange(count)[:, None] + arange(width)[None, :], -1)


@traced
def hilbert(n: int) -> TracedArray:
    """Returns the matrix of 1 / (i + j + 1)."""
    positions = np.arange(n)
    return operand((1 / (positions[:, None] + positions + 1)).astype("float32"))


@without_hints
@traced
def polar(a: Any, side: str = "right", *, method: str = "svd") -> tuple[TracedArray, TracedArray]:
    """Returns orthonormal columns u and a positive semidefinite p, with u @ p = a, or with side
    "left" p @ u = a."""
    if side not in ("right", "left"):
        raise _unsupported(f"polar: side: expected 'right' or 'left', found {side!r}")
    u, s, vh = linalg.svd(a, full_matrices=False)
    outer = (matrix_transpose(vh), vh) if side == "right" else (u, matrix_transpose(u))
    return matmul(u, vh), matmul(outer[0] * s[..., None, :], outer[1])


def _unsupported(message: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(message, code="E1107"))


__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "expm",
    "hilbert",
    "inv",
    "lu",
    "lu_factor",
    "lu_solve",
    "polar",
    "qr",
    "solve",
    "solve_triangular",
    "svd",
    "toeplitz",
]
