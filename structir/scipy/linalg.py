"""Linear algebra."""

from structir.numpy.linalg import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    eigh,
    inv,
    qr,
    solve,
    solve_triangular,
    svd,
)

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eigh",
    "inv",
    "qr",
    "solve",
    "solve_triangular",
    "svd",
]
