"""Ops of matrices: determinants, linear systems and Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Call, Constant, Expr, PrimValue, ShapeExpr
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit, component
from structir.opdef.define import op
from structir.opdef.examples import ExactValues
from structir.ops.contract import matmul
from structir.ops.create import eye, tril, triu
from structir.ops.elementwise import negative
from structir.ops.layout import broadcast_to, expand_dims, permute_dims

np = lazy_module("numpy")
Array = Any
COLUMNS = 128  # of a block of right-hand sides
MATRIX = ExactValues("float32", ((4.0, 1.0, -1.0), (1.0, 3.0, 0.5), (-1.0, 0.5, 2.0)))
RIGHT = ExactValues("float32", ((1.0, 2.0), (-1.0, 0.5), (3.0, -2.0)))


def eliminate(a: Array, b: Array) -> float:
    """Solves a @ x = b in place by elimination with partial pivoting; returns the sign of the
    row permutation, or 0 if the matrix is singular.

    `b` becomes x, and the diagonal of `a` becomes the pivots.
    """
    count, sign = a.shape[0], 1.0
    for k in range(count):
        pivot = k
        for i in range(k + 1, count):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if a[pivot, k] == 0.0:
            return 0.0
        if pivot != k:
            sign = -sign
            for j in range(count):
                a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
            for j in range(b.shape[1]):
                b[k, j], b[pivot, j] = b[pivot, j], b[k, j]
        for i in range(k + 1, count):
            factor = a[i, k] / a[k, k]
            subtract_scaled(a[i, k:], factor, a[k, k:])
            subtract_scaled(b[i], factor, b[k])
    substitute(a, b, False)
    return sign


def substitute(a: Array, x: Array, lower: bool) -> None:
    """Solves a @ y = x in place for a triangle of `a`: `x` becomes y."""
    count, row = a.shape[0], np.empty(x.shape[1], x.dtype)
    for step in range(count):
        if lower:
            substitute_row(a, x, row, step, 0, step)
        else:
            substitute_row(a, x, row, count - 1 - step, count - step, count)


def substitute_row(a: Array, x: Array, row: Array, i: int, first: int, last: int) -> None:
    """Computes row `i` of a solution from the rows `first` to `last` (exclusive)."""
    for j in range(row.shape[0]):
        row[j] = x[i, j]
    for part in range((last - first) // 4):  # four rows: the result is loaded and stored once
        k = first + 4 * part
        subtract_product(row, a[i, k : k + 4], x[k], x[k + 1], x[k + 2], x[k + 3])
    for k in range(last - (last - first) % 4, last):
        factor = a[i, k]
        for j in range(row.shape[0]):
            row[j] -= factor * x[k, j]
    pivot = a[i, i]
    for j in range(row.shape[0]):
        x[i, j] = row[j] / pivot


def subtract_product(
    row: Array, factors: Array, first: Array, second: Array, third: Array, fourth: Array
) -> None:
    """Subtracts the product of a vector of four elements and four rows."""
    one, two, three, four = factors[0], factors[1], factors[2], factors[3]
    for j in range(row.shape[0]):
        total = row[j] - one * first[j]
        total -= two * second[j]
        total -= three * third[j]
        row[j] = total - four * fourth[j]


def doubles(x: Array) -> Array:
    """Returns a copy of a matrix in float64."""
    result = np.empty((x.shape[0], x.shape[1]), np.float64)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            result[i, j] = x[i, j]
    return result


@op("a[*p, [n], [n]] @ F -> sign[*p] @ F, logarithm[*p] @ F", name="linalg.slogdet")
def slogdet(a: Array) -> Any:
    """Computes the sign of the determinant and the logarithm of its absolute value."""
    return a


@slogdet.reference
def _(a: Array) -> Any:
    sign, logarithm = np.linalg.slogdet(a.astype("float64"))
    return sign.astype(a.dtype), logarithm.astype(a.dtype)


@slogdet.kernel("cpu")
def _(a: Array, sign: Array, logarithm: Array) -> None:
    work = doubles(a)
    result = eliminate(work, np.empty((work.shape[0], 0), np.float64))
    total = 0.0
    if result == 0.0:
        total = -np.inf
    else:
        for k in range(work.shape[0]):
            total += math.log(abs(work[k, k]))
            if work[k, k] < 0.0:
                result = -result
    sign[0] = result
    logarithm[0] = total


def transposed(x: Expr) -> Expr:
    """Returns matrices with their two axes exchanged; the rank must be known."""
    info: Any = x.struct_info
    return permute_dims(x, [*range(info.ndim - 2), info.ndim - 1, info.ndim - 2])


@op("a[*p, [n], [n]] @ F, b[*p, [n], [m]] @ F -> x[*p, [n], [m]] @ F", name="linalg.solve")
def solve(a: Array, b: Array) -> Array:
    """Solves the linear systems a @ x = b for matrices b."""
    return b


@solve.reference
def _(a: Array, b: Array) -> Array:
    try:
        return np.linalg.solve(a.astype("float64"), b.astype("float64")).astype(b.dtype)
    except np.linalg.LinAlgError:
        raise ValueError(SINGULAR) from None


SINGULAR = "a: expected invertible matrices, found a singular one"
solve.rejects_values(SINGULAR)


@solve.kernel("cpu")
def _(a: Array, b: Array, x: Array) -> None:
    solution = doubles(b)
    if eliminate(doubles(a), solution) == 0.0:
        raise ValueError(SINGULAR)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = solution[i, j]


@solve.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoints: solve(a^T, cotangent), and minus its product with x^T."""
    gradient = emit(solve(transposed(call.args[0]), cotangent))
    return [negative(matmul(gradient, transposed(result))), gradient]


@op(
    "a[*p, [n], [n]] @ F, b[*p, [n], [m]] @ F -> x[*p, [n], [m]] @ F",
    name="linalg.solve_triangular",
)
def solve_triangular(a: Array, b: Array, lower: bool = True) -> Array:
    """Solves the linear systems a @ x = b for matrices b; only one triangle of `a` is read."""
    return b


@solve_triangular.reference
def _(a: Array, b: Array, lower: bool = True) -> Array:
    matrix, x, rows = a.astype("float64"), b.astype("float64"), range(a.shape[-1])
    with np.errstate(all="ignore"):
        for i in rows if lower else reversed(rows):
            solved = slice(0, i) if lower else slice(i + 1, None)
            terms = matrix[..., i : i + 1, solved] @ x[..., solved, :]
            x[..., i, :] = (x[..., i, :] - terms[..., 0, :]) / matrix[..., i, i, None]
    return x.astype(b.dtype)


@solve_triangular.kernel("cpu")
def _(a: Array, b: Array, x: Array, lower: bool) -> None:
    """Solves blocks of columns, which stay in the cache."""
    for start in range(0, x.shape[1], COLUMNS):
        width = min(COLUMNS, x.shape[1] - start)
        work = np.empty((x.shape[0], width), x.dtype)
        for i in range(x.shape[0]):
            for j in range(width):
                work[i, j] = b[i, start + j]
        substitute(a, work, lower)
        for i in range(x.shape[0]):
            for j in range(width):
                x[i, start + j] = work[i, j]


@solve_triangular.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoints: the solution for a^T, and a triangle of minus its product with x^T."""
    lower = call.attrs.get("lower", True)
    right = emit(solve_triangular(transposed(call.args[0]), cotangent, lower=not lower))
    product = negative(matmul(right, transposed(result)))
    return [(tril if lower else triu)(emit(product), PrimValue(0)), right]


@op("a[*p, [n], [n]] @ F -> factor[*p, [n], [n]] @ F", name="linalg.cholesky")
def cholesky(a: Array) -> Array:
    """Computes the lower Cholesky factors of positive definite matrices."""
    return a


@cholesky.reference
def _(a: Array) -> Array:
    try:
        return np.linalg.cholesky(a.astype("float64")).astype(a.dtype)
    except np.linalg.LinAlgError:
        raise ValueError(INDEFINITE) from None


INDEFINITE = "a: expected positive definite matrices, found another"
cholesky.rejects_values(INDEFINITE)


@cholesky.kernel("cpu")
def _(a: Array, factor: Array) -> None:
    """Computes the rows of the transposed factor, each from the rows above it."""
    count = a.shape[0]
    work, row = np.empty((count, count), np.float64), np.empty(count, np.float64)
    for i in range(count):
        for j in range(i, count):
            work[i, j] = a[j, i]
    for i in range(count):
        for j in range(i, count):
            row[j] = work[i, j]
        for k in range(i):
            subtract_scaled(row[i:], work[k, i], work[k, i:])
        if not row[i] > 0.0:
            raise ValueError(INDEFINITE)
        pivot = math.sqrt(row[i])
        for j in range(i, count):
            work[i, j] = row[j] / pivot
    for i in range(count):
        for j in range(count):
            factor[i, j] = work[j, i] if j <= i else 0.0


def subtract_scaled(row: Array, scale: float, other: Array) -> None:
    """Subtracts a multiple of another row from a row."""
    for j in range(row.shape[0]):
        row[j] -= scale * other[j]


def identity_like(a: Expr) -> Expr:
    """Returns identity matrices in the shape and dtype of square matrices of known shape."""
    info: Any = a.struct_info
    if not isinstance(getattr(info, "dims", None), tuple):
        message = f"the gradient needs matrices of known shape, found {info}"
        raise DiagnosticError(Diagnostic(message, code="E0307"))
    size = PrimValue(info.dims[-1])
    unit: Expr = eye(size, size, PrimValue(0), dtype=info.dtype)
    return unit if len(info.dims) == 2 else broadcast_to(unit, ShapeExpr(info.dims))


def half(a: Expr) -> Expr:
    """Returns half of a floating-point tensor."""
    info: Any = a.struct_info
    value = Constant(np.asarray(0.5, numpy_dtype(info.dtype)))
    return a * value


def of_lower_triangle(a: Expr, emit: Emit) -> Expr:
    """Returns the cotangent of matrices of which only the lower triangle is read.

    `a` is the cotangent of the whole matrices: an element below the diagonal stands for two.
    """
    matrix = emit(a)
    both = emit(matrix + transposed(matrix))
    diagonal = emit(matrix * emit(identity_like(matrix)))
    return tril(both, PrimValue(0)) - diagonal


@slogdet.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the transposed inverse, times the cotangent of the logarithm.

    A singular matrix has no derivative: `solve` raises an error.
    """
    a = call.args[0]
    factor = component(cotangent, 1, emit)
    if factor is None:
        return [None]
    inverse = emit(solve(transposed(a), emit(identity_like(a))))
    return [inverse * expand_dims(factor, [-2, -1])]


@cholesky.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint of the lower triangle.

    Source: Murray, "Differentiation of the Cholesky decomposition", 2016.
    """
    product = emit(matmul(transposed(result), cotangent))
    diagonal = half(emit(product * emit(identity_like(result))))
    lower = emit(tril(product, PrimValue(0)) - diagonal)
    factor = emit(transposed(result))
    left = emit(solve_triangular(factor, lower, lower=False))
    right = emit(solve_triangular(factor, transposed(left), lower=False))
    return [of_lower_triangle(transposed(right), emit)]


slogdet.example(MATRIX)
solve.example(MATRIX, RIGHT)
solve_triangular.example(MATRIX, RIGHT, lower=False)
cholesky.example(MATRIX)
