"""Moves the selection of columns after a matrix product."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.opdef.attributes import Axis
from structir.ops.contract import matmul
from structir.ops.indexing import take
from structir.rewriting.guards import rank_of, used_once
from structir.rewriting.rule import rewrite


@rewrite(tolerance=1e-3)
def reorder_take_after_matmul(x: Expr, w: Expr, indices: Expr, axis: Axis) -> Iterator[Expr]:
    """Rewrites x @ take(w, indices) to take(x @ w, indices), for columns of a matrix.

    The product with each column is computed once, and the weights are not copied.
    """
    columns = take(w, indices, axis=axis)
    yield matmul(x, columns)
    is_matrix = rank_of(w) == 2 and axis in (1, -1)
    if is_matrix and rank_of(indices) == 1 and rank_of(x) is not None and used_once(columns):
        yield take(matmul(x, w), indices, axis=-1)
