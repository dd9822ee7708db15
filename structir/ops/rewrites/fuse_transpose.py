"""Fuses a transpose into the matrix product that uses it."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.opdef.attributes import Ints
from structir.ops.contract import einsum, matmul
from structir.ops.layout import permute_dims
from structir.rewriting.guards import dtype_of, rank_of, used_once
from structir.rewriting.rule import rewrite


@rewrite(tolerance=1e-3)
def fuse_transpose_matmul(x: Expr, w: Expr, axes: Ints | None) -> Iterator[Expr]:
    """Rewrites the product with a transposed matrix to one that reads the matrix as it is stored.

    The transpose is not computed; a kernel of the product reads along rows of `w`.
    """
    transposed = permute_dims(w, axes)
    yield matmul(x, transposed)
    is_transpose = rank_of(w) == 2 and (axes is None or [a % 2 for a in axes] == [1, 0])
    if is_transpose and rank_of(x) and dtype_of(x) == dtype_of(w) and used_once(transposed):
        yield einsum((x, w), "*b k; j k -> *b j")
