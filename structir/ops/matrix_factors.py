"""Ops that factor matrices: LU and QR factors, eigenvalues and singular values."""

from __future__ import annotations

import math
from typing import Any, Literal

from structir.errors import Diagnostic, DiagnosticError
from structir.ir.dim_proofs import at_least
from structir.ir.dims import Dim
from structir.ir.expr import Call, Expr, PrimValue, ShapeExpr
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit, component
from structir.opdef.call_view import CallView, ResolvedSignature
from structir.opdef.define import op
from structir.opdef.examples import ExactValues
from structir.ops.contract import matmul
from structir.ops.create import ones_like, tril, triu, zeros_like
from structir.ops.elementwise import negative
from structir.ops.indexing import gather_elements
from structir.ops.joined import concat
from structir.ops.layout import broadcast_to, expand_dims
from structir.ops.linalg import (
    MATRIX,
    doubles,
    identity_like,
    of_lower_triangle,
    solve,
    subtract_scaled,
    transposed,
)
from structir.ops.slices import strided_slice
from structir.ops.sort import argsort

np = lazy_module("numpy")
Array = Any
TALL = ExactValues("float32", ((4.0, 1.0), (1.0, 3.0), (-1.0, 0.5)))


def reflect(work: Array, j: int) -> float:
    """Eliminates column j of `work` below the diagonal by a Householder reflection in place.

    The vector of the reflection, whose first element is 1, is stored below the diagonal. Returns
    its factor, in the sign convention of LAPACK: 0 for a column that is zero below the diagonal.
    """
    squares = 0.0
    for i in range(j + 1, work.shape[0]):
        squares += work[i, j] * work[i, j]
    if squares == 0.0:
        return 0.0
    pivot = work[j, j]
    beta = -math.copysign(math.sqrt(pivot * pivot + squares), pivot)
    for i in range(j + 1, work.shape[0]):
        work[i, j] /= pivot - beta
    work[j, j] = beta
    factor: float = (beta - pivot) / beta
    for k in range(j + 1, work.shape[1]):
        apply_reflection(work, j, factor, work, k)
    return factor


def apply_reflection(work: Array, j: int, factor: float, x: Array, k: int) -> None:
    """Applies the reflection that is stored in column j of `work` to column k of `x` in place."""
    total = x[j, k]
    for i in range(j + 1, work.shape[0]):
        total += work[i, j] * x[i, k]
    x[j, k] -= factor * total
    for i in range(j + 1, work.shape[0]):
        x[i, k] -= factor * total * work[i, j]


def qr_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with min(m, n) columns of q, or with m of them if complete."""
    signature = "a[*p, [m], [n]] @ F -> q[*p, [m], [k]] @ F, r[*p, [k], [n]] @ F"
    return ResolvedSignature(
        signature, "k == m" if call["mode"] == "complete" else "k == min(m, n)"
    )


@op(qr_signature, name="linalg.qr")
def qr(a: Array, mode: Literal["reduced", "complete"] = "reduced") -> Any:
    """Computes QR factors: orthonormal columns q and an upper triangular r with q @ r = a."""
    return a


@qr.reference
def _(a: Array, mode: str) -> Any:
    q, r = np.linalg.qr(a.astype("float64"), mode=mode)
    return q.astype(a.dtype), r.astype(a.dtype)


@qr.kernel("cpu")
def _(a: Array, q: Array, r: Array) -> None:
    work = doubles(a)
    count = min(work.shape[0], work.shape[1])
    factors = np.empty(count, np.float64)
    for j in range(count):
        factors[j] = reflect(work, j)
    columns = np.zeros((q.shape[0], q.shape[1]), np.float64)
    for k in range(q.shape[1]):
        columns[k, k] = 1.0
        for j in range(count - 1, -1, -1):
            apply_reflection(work, j, factors[j], columns, k)
    for i in range(q.shape[0]):
        for k in range(q.shape[1]):
            q[i, k] = columns[i, k]
    for i in range(r.shape[0]):
        for k in range(r.shape[1]):
            r[i, k] = work[i, k] if i <= k else 0.0


@op("a[*p, [n], [n]] @ F -> values[*p, [n]] @ F, vectors[*p, [n], [n]] @ F", name="linalg.eigh")
def eigh(a: Array) -> Any:
    """Computes ascending eigenvalues and orthonormal eigenvectors of symmetric matrices, of which
    only the lower triangle is read; NumPy computes them on the host."""
    return a


@eigh.reference
def _(a: Array) -> Any:
    values, vectors = np.linalg.eigh(_finite(a))
    return values.astype(a.dtype), vectors.astype(a.dtype)


def _finite(a: Array) -> Array:
    """Returns a in float64; raises ValueError for NaN and infinity, for which LAPACK fails."""
    if not np.isfinite(a).all():
        raise ValueError("a: expected finite elements, found NaN or infinity")
    return a.astype("float64")


SVD = "a[*p, [m], [n]] @ F -> u[*p, [m], [k]] @ F, s[*p, [k]] @ F, vh[*p, [k], [n]] @ F"
FULL_SVD = "a[*p, [m], [n]] @ F -> u[*p, [m], [m]] @ F, s[*p, [k]] @ F, vh[*p, [n], [n]] @ F"


def svd_signature(call: CallView) -> ResolvedSignature:
    """Returns the signature with square or with min(m, n) singular vectors."""
    return ResolvedSignature(FULL_SVD if call["full_matrices"] else SVD, "k == min(m, n)")


@op(svd_signature, name="linalg.svd")
def svd(a: Array, full_matrices: bool = False) -> Any:
    """Computes singular values in descending order and singular vectors with u @ diag(s) @ vh = a;
    NumPy computes them on the host."""
    return a


@svd.reference
def _(a: Array, full_matrices: bool) -> Any:
    parts = np.linalg.svd(_finite(a), full_matrices=full_matrices)
    return tuple([part.astype(a.dtype) for part in parts])


LU = (
    "a[*p, [m], [n]] @ F -> factors[*p, [m], [n]] @ F, pivots[*p, [k]] @ int32, "
    "permutation[*p, [m]] @ int32"
)


@op(lambda call: ResolvedSignature(LU, "k == min(m, n)"), name="linalg.lu")
def lu(a: Array) -> Any:
    """Computes LU factors with partial pivoting, as LAPACK's getrf: the unit lower and the upper
    factor in one matrix, the row that each step exchanges with its own, and the row of `a` that
    each row of the product is."""
    return a


@lu.reference
def _(a: Array) -> Any:
    matrices = a.astype("float64").reshape(math.prod(a.shape[:-2]), *a.shape[-2:])
    parts = [_eliminated(matrix.copy()) for matrix in matrices]
    rows, columns = a.shape[-2:]
    shapes = (rows, columns), (min(rows, columns),), (rows,)
    dtypes = a.dtype, "int32", "int32"
    return tuple(
        [
            np.array([part[k] for part in parts], dtypes[k]).reshape(*a.shape[:-2], *shapes[k])
            for k in range(3)
        ]
    )


def _eliminated(work: Array) -> tuple[Array, Array, Array]:
    pivots = np.empty(min(work.shape[0], work.shape[1]), np.int32)
    permutation = np.empty(work.shape[0], np.int32)
    eliminate(work, pivots, permutation)
    return work, pivots, permutation


def eliminate(work: Array, pivots: Array, permutation: Array) -> None:
    """Replaces a matrix by its LU factors, row by row in place."""
    for i in range(work.shape[0]):
        permutation[i] = i
    for j in range(pivots.shape[0]):
        best = j
        for i in range(j + 1, work.shape[0]):
            if abs(work[i, j]) > abs(work[best, j]):
                best = i
        pivots[j] = best
        if best != j:
            exchanged = permutation[j]
            permutation[j] = permutation[best]
            permutation[best] = exchanged
            for k in range(work.shape[1]):
                value = work[j, k]
                work[j, k] = work[best, k]
                work[best, k] = value
        if work[j, j] == 0.0:
            continue
        for i in range(j + 1, work.shape[0]):
            work[i, j] /= work[j, j]
            subtract_scaled(work[i, j + 1 :], work[i, j], work[j, j + 1 :])


@lu.kernel("cpu")
def _(a: Array, factors: Array, pivots: Array, permutation: Array) -> None:
    work = doubles(a)
    eliminate(work, pivots, permutation)
    for i in range(work.shape[0]):
        for k in range(work.shape[1]):
            factors[i, k] = work[i, k]


@eigh.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint of the lower triangle, for distinct eigenvalues.

    Source: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008.
    """
    values, vectors = emit(result[0]), emit(result[1])
    to_values, to_vectors = (component(cotangent, k, emit) for k in (0, 1))
    unit = emit(identity_like(vectors))
    inner: Expr | None = None
    if to_vectors is not None:
        differences = expand_dims(values, [-2]) - expand_dims(values, [-1])
        others = emit(ones_like(unit) - unit)
        factors = emit(others / emit(differences + unit))
        inner = emit(factors * emit(matmul(transposed(vectors), to_vectors)))
    if to_values is not None:
        diagonal = emit(unit * expand_dims(to_values, [-2]))
        inner = diagonal if inner is None else emit(inner + diagonal)
    if inner is None:
        return [None]
    product = matmul(emit(matmul(vectors, inner)), transposed(vectors))
    return [of_lower_triangle(product, emit)]


def added(first: Expr | None, second: Expr, emit: Emit) -> Expr:
    """Returns the sum of two terms; the first one may be absent."""
    return emit(second) if first is None else emit(first + emit(second))


def product(emit: Emit, *factors: Expr) -> Expr:
    """Returns the product of matrices, from left to right."""
    result = factors[0]
    for factor in factors[1:]:
        result = emit(matmul(result, factor))
    return result


def part(x: Expr, axis: int, begin: Dim, end: Dim) -> Expr:
    """Returns the elements of an axis from `begin` up to `end`."""
    return strided_slice(x, [axis], [PrimValue(begin)], [PrimValue(end)])


def difference_of_transpose(a: Expr, emit: Emit) -> Expr:
    """Returns a - a^T."""
    return emit(a - transposed(a))


@svd.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint for distinct singular values, of which none is 0 if vectors are used.

    Source: Townsend, "Differentiating the singular value decomposition", 2016.
    """
    u, s, vh = (emit(result[k]) for k in range(3))
    to_u, to_s, to_vh = (component(cotangent, k, emit) for k in range(3))
    if call.attrs.get("full_matrices") and (to_u is not None or to_vh is not None):
        text = "not differentiable: the vectors of full matrices are not unique"
        help_line = "write `full_matrices=False`"
        raise DiagnosticError(
            Diagnostic(text, call.span, "linalg.svd", hint=help_line, code="E0307")
        )
    ut, v = emit(transposed(u)), emit(transposed(vh))
    if to_u is None and to_vh is None:
        if to_s is None:
            return [None]
        k = s.struct_info.dims[-1]
        u, vh = emit(part(u, -1, 0, k)), emit(part(vh, -2, 0, k))
        return [product(emit, emit(u * expand_dims(to_s, [-2])), vh)]
    row, column = expand_dims(s, [-2]), expand_dims(s, [-1])
    unit = emit(identity_like(emit(matmul(ut, u))))
    differences = emit(emit(emit(row - column) * emit(row + column)) + unit)
    inner: Expr | None = None if to_s is None else emit(unit * expand_dims(to_s, [-2]))
    outer: Expr | None = None
    if to_u is not None:
        along = difference_of_transpose(product(emit, ut, to_u), emit)
        inner = added(inner, emit(along / differences) * row, emit)
        rest = emit(to_u - product(emit, u, ut, to_u))
        outer = product(emit, emit(rest / row), vh)
    if to_vh is not None:
        to_v = emit(transposed(to_vh))
        along = difference_of_transpose(product(emit, vh, to_v), emit)
        inner = added(inner, emit(along / differences) * column, emit)
        rest = emit(to_vh - product(emit, to_vh, v, vh))
        outer = added(outer, product(emit, emit(u / row), rest), emit)
    assert inner is not None and outer is not None
    return [added(outer, product(emit, u, inner, vh), emit)]


def of_square_qr(q: Expr, r: Expr, to_q: Any, to_r: Any, emit: Emit) -> Expr:
    """Returns the cotangent of a matrix with at least as many rows as columns."""
    inner: Expr | None = None
    if to_r is not None:
        inner = product(emit, r, emit(transposed(triu(to_r, PrimValue(0)))))
    if to_q is not None:
        inner = added(inner, negative(product(emit, emit(transposed(to_q)), q)), emit)
    assert inner is not None
    below = emit(tril(inner, PrimValue(-1)))
    diagonal = emit(inner * emit(identity_like(r)))
    symmetric = emit(emit(below + transposed(below)) + diagonal)
    total = added(to_q, product(emit, q, symmetric), emit)
    return emit(transposed(emit(solve(r, transposed(total)))))


@qr.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint for columns of full rank.

    Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with
    application in optimum experimental design", 2010; for wide matrices: Roberts and Roberts, "QR
    and LQ decomposition matrix backpropagation algorithms for square, wide, and deep matrices",
    2020.
    """
    q, r = emit(result[0]), emit(result[1])
    to_q, to_r = (component(cotangent, k, emit) for k in (0, 1))
    if to_q is None and to_r is None:
        return [None]
    m, n = call.args[0].struct_info.dims[-2:]
    if at_least(m, n):
        if call.attrs.get("mode") == "complete" and not at_least(n, m):
            message = "not differentiable: the columns of complete factors are not unique"
            raise DiagnosticError(
                Diagnostic(
                    message, call.span, "linalg.qr", hint='write `mode="reduced"`', code="E0307"
                )
            )
        return [of_square_qr(q, r, to_q, to_r, emit)]
    if not at_least(n, m):
        message = f"not differentiable: which of the sizes {m} and {n} is larger is unknown"
        raise DiagnosticError(Diagnostic(message, call.span, "linalg.qr", code="E0307"))
    # a = [x, y] = q @ [left, right]: x has the factors q and left, and y = q @ right.
    y, left = emit(part(call.args[0], -1, m, n)), emit(part(r, -1, 0, m))
    to_left = None if to_r is None else emit(part(to_r, -1, 0, m))
    to_right = None if to_r is None else emit(part(to_r, -1, m, n))
    if to_right is not None:
        to_q = added(to_q, product(emit, y, emit(transposed(to_right))), emit)
    to_x = of_square_qr(q, left, to_q, to_left, emit)
    to_y = emit(zeros_like(y)) if to_right is None else product(emit, q, to_right)
    return [concat([to_x, to_y], axis=-1)]


@lu.gradient
def _(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the adjoint, with the row permutation held fixed.

    The factors are a square matrix and the rows below it or the columns beside it. Source: Axen and
    others, "Differentiating the LU decomposition", arXiv 2103.04909.
    """
    to_factors = component(cotangent, 0, emit)
    if to_factors is None:
        return [None]
    factors, permutation = emit(result[0]), emit(result[2])
    m, n = factors.struct_info.dims[-2:]
    is_tall, is_wide = at_least(m, n), at_least(n, m)
    if not (is_tall or is_wide):
        message = f"not differentiable: which of the sizes {m} and {n} is larger is unknown"
        raise DiagnosticError(Diagnostic(message, call.span, "linalg.lu", code="E0307"))
    axis, count, end = (-2, n, m) if is_tall else (-1, m, n)
    square, to_square = (emit(part(x, axis, 0, count)) for x in (factors, to_factors))
    upper = emit(triu(square, PrimValue(0)))
    lower = emit(emit(square - upper) + emit(identity_like(square)))
    to_upper = emit(triu(to_square, PrimValue(0)))
    below = product(emit, emit(transposed(lower)), emit(to_square - to_upper))
    above = product(emit, to_upper, emit(transposed(upper)))
    rest = None
    if not (is_tall and is_wide):
        other, rest = (emit(part(x, axis, count, end)) for x in (factors, to_factors))
        if is_tall:
            above = emit(above - product(emit, emit(transposed(other)), rest))
            rest = emit(transposed(emit(solve(upper, transposed(rest)))))
        else:
            below = emit(below - product(emit, rest, emit(transposed(other))))
            rest = emit(solve(transposed(lower), rest))
    inner = emit(emit(tril(below, PrimValue(-1))) + emit(triu(above, PrimValue(0))))
    left = emit(solve(transposed(lower), inner))
    rows = emit(transposed(emit(solve(upper, transposed(left)))))
    rows = rows if rest is None else emit(concat([rows, rest], axis=axis))
    inverse = expand_dims(emit(argsort(permutation)), [-1])
    indices = emit(broadcast_to(inverse, ShapeExpr(rows.struct_info.dims)))
    return [gather_elements(rows, indices, axis=-2)]


qr.example(TALL)
eigh.example(MATRIX)
svd.example(TALL)
lu.example(TALL)
lu.example(MATRIX)
