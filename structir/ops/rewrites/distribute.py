"""Distributes matrix products over sums, so that each term is a product of its own."""

from __future__ import annotations

from collections.abc import Iterator

from structir.ir.expr import Expr
from structir.ops.broadcast import add
from structir.ops.contract import matmul
from structir.rewriting.guards import same_sizes, used_once
from structir.rewriting.rule import rewrite


@rewrite(tolerance=1e-3)
def expand_matmul_of_sum(x: Expr, a: Expr, b: Expr) -> Iterator[Expr]:
    """Rewrites x @ (a + b) to x @ a + x @ b, for terms of equal sizes.

    It moves a low-rank update `w + u @ v` out of the weight, so that `reorder_matmul` can multiply
    it from the left.
    """
    total = add(a, b)
    yield matmul(x, total)
    if used_once(total) and same_sizes(a, b):
        yield add(matmul(x, a), matmul(x, b))
