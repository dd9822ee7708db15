"""Matrix factorizations as external functions, in the conventions of LAPACK; computed in float64.

Factors of symmetric indefinite matrices: Bunch and Kaufman, "Some stable methods for calculating
inertia and solving symmetric linear systems", 1977.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from structir.interpret.extern import register_extern

Array = np.ndarray[Any, Any]
GROWTH = (1 + math.sqrt(17)) / 8  # the least quotient for a pivot on the diagonal


def reflections(a: Array) -> tuple[Array, Array]:
    """Returns the QR factors of matrices as LAPACK stores them: R and below it the vectors of the
    Householder reflections, and the factors of these."""
    if not a.size:
        return a.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    packed, factors = np.linalg.qr(a.astype("float64"), mode="raw")
    return np.swapaxes(packed, -1, -2).astype(a.dtype), factors.astype(a.dtype)


def eigenvectors(real: Array, imag: Array | None = None) -> tuple[Array, ...]:
    """Returns the eigenvalues of any square matrices, and the eigenvectors of length 1 in columns:
    the real and the imaginary parts of each."""
    a = real.astype("float64") if imag is None else real + 1j * imag.astype("float64")
    if not np.isfinite(a).all():
        raise ValueError("a: expected finite elements, found NaN or infinity")
    parts = [part for result in np.linalg.eig(a) for part in (np.real(result), np.imag(result))]
    return tuple([part.astype(real.dtype) for part in parts])


def symmetric_factors(a: Array, is_checked: bool = False) -> tuple[Array, Array, Array]:
    """Returns factors L and D with P L D L^T P^T = a in one matrix, the pivots from 1, negative for
    blocks of two, and the number of the first zero on the diagonal of D, else 0.

    The lower triangle of each matrix is read, and the upper one of the result is 0. With
    `is_checked`, a zero on the diagonal of D is an error.
    """
    factors = np.tril(a.astype("float64"))
    pivots, status = np.zeros(a.shape[:-1], "int32"), np.zeros(a.shape[:-2], "int32")
    for index in np.ndindex(a.shape[:-2]):
        status[index] = _factor(factors[index], pivots[index])
    if is_checked and status.any():
        raise ValueError("a: expected invertible matrices, found a singular one")
    return factors.astype(a.dtype), pivots, status


def _factor(a: Array, pivots: Array) -> int:
    """Factors one matrix in place, of which the lower triangle is read; returns the status."""
    count, status, k = len(a), 0, 0
    while k < count:
        pivot, width = _pivot(a, k)
        last = k + width - 1
        if pivot != last:
            _exchange(a, k, last, pivot)
        block, below = a[k : k + width, k : k + width], a[k + width :, k : k + width]
        if not block.any():
            status = status or k + 1
        else:
            whole = np.tril(block) + np.tril(block, -1).T
            scaled = below @ np.linalg.inv(whole)
            a[k + width :, k + width :] -= np.tril(scaled @ below.T)
            below[:] = scaled
        pivots[k : k + width] = pivot + 1 if width == 1 else -(pivot + 1)
        k += width
    return status


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """Returns the row to exchange with the last one of the next block, and the size of the
    block."""
    diagonal, column = abs(a[k, k]), np.abs(a[k + 1 :, k])
    if not len(column) or diagonal >= GROWTH * column.max():
        return k, 1
    largest = k + 1 + int(column.argmax())
    row = np.concatenate([a[largest, k:largest], a[largest + 1 :, largest]])
    if diagonal * np.abs(row).max() >= GROWTH * column.max() ** 2:
        return k, 1
    return largest, 1 if abs(a[largest, largest]) >= GROWTH * np.abs(row).max() else 2


def _exchange(a: Array, k: int, i: int, j: int) -> None:
    """Exchanges two rows and columns of a symmetric matrix from row k on, i before j."""
    rest = a[k:, k:]
    whole = rest + np.tril(rest, -1).T
    order = np.arange(len(whole))
    order[[i - k, j - k]] = j - k, i - k
    a[k:, k:] = np.tril(whole[order][:, order])


def symmetric_solution(factors: Array, pivots: Array, b: Array) -> Array:
    """Returns the solution of a @ x = b from the factors and the pivots of a; the leading axes
    broadcast."""
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(factors.astype("float64"), (*batch, *factors.shape[-2:]))
    rows = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    x = np.broadcast_to(b.astype("float64"), (*batch, *b.shape[-2:])).copy()
    for index in np.ndindex(batch):
        _solve(a[index], rows[index], x[index])
    return x.astype(b.dtype)


def _solve(a: Array, pivots: Array, x: Array) -> None:
    """Solves one system in place: by L, by the blocks of D, and by L^T."""
    starts, k = [], 0
    while k < len(a):
        starts.append(k)
        k += 1 if pivots[k] > 0 else 2
    for k in starts:
        width, last, pivot = _block(pivots, k)
        x[[last, pivot]] = x[[pivot, last]]
        x[k + width :] -= a[k + width :, k : k + width] @ x[k : k + width]
        block = a[k : k + width, k : k + width]
        with np.errstate(all="ignore"):
            whole = np.tril(block) + np.tril(block, -1).T
            x[k : k + width] = (
                x[k : k + width] / whole if width == 1 else np.linalg.solve(whole, x[k : k + 2])
            )
    for k in reversed(starts):
        width, last, pivot = _block(pivots, k)
        x[k : k + width] -= a[k + width :, k : k + width].T @ x[k + width :]
        x[[last, pivot]] = x[[pivot, last]]


def _block(pivots: Array, k: int) -> tuple[int, int, int]:
    """Returns the size of a block of D, its last row, and the row that this was exchanged with."""
    width = 1 if pivots[k] > 0 else 2
    return width, k + width - 1, abs(int(pivots[k])) - 1


for _function in (reflections, eigenvectors, symmetric_factors, symmetric_solution):
    register_extern(f"matrix.{_function.__name__}", _function)
