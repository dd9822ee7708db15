"""Rewrites of matrix products: several side by side, and in a cheaper order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from structir.ir.dims import Dim, at_least, equal, substitute, sym, syms
from structir.ir.expr import Expr
from structir.ops.contract import matmul
from structir.ops.joined import concat, split
from structir.rewriting.conditions import dims_of, dtype_of, rank_of, used_once
from structir.rewriting.rule import Parallel, rewrite


@rewrite
def combine_parallel_matmul(x: Expr, weights: Parallel) -> Iterator[Any]:
    """Products that share their left operand become one, with the right ones side by side."""
    yield matmul(x, weights)
    shapes = [dims_of(weight) for weight in weights]
    alike = len({dtype_of(weight) for weight in weights}) == 1
    if alike and all(rank_of(weight) == 2 for weight in weights) and None not in shapes:
        widths = [shape[-1] for shape in shapes if shape is not None]
        ends = tuple(accumulate(widths))[:-1]
        if all(isinstance(end, int) for end in ends):
            parts = split(matmul(x, concat(weights, axis=-1)), ends, axis=-1)
            yield tuple([parts[k] for k in range(len(weights))])


@rewrite(group="reorder_matmul", tolerance=1e-3)
def multiply_right_first(a: Expr, b: Expr, c: Expr) -> Iterator[Expr]:
    """(a b) c is a (b c) where that provably takes fewer steps, whatever the sizes are."""
    product = matmul(a, b)
    yield matmul(product, c)
    costs = _costs(a, b, c)
    if costs and used_once(product) and _less(costs[1], costs[0]):
        yield matmul(a, matmul(b, c))


@rewrite(group="reorder_matmul", tolerance=1e-3)
def multiply_left_first(a: Expr, b: Expr, c: Expr) -> Iterator[Expr]:
    """a (b c) is (a b) c where that provably takes fewer steps, whatever the sizes are."""
    product = matmul(b, c)
    yield matmul(a, product)
    costs = _costs(a, b, c)
    if costs and used_once(product) and _less(costs[0], costs[1]):
        yield matmul(matmul(a, b), c)


def _costs(a: Expr, b: Expr, c: Expr) -> tuple[Dim, Dim] | None:
    """The multiplications of (a b) c and of a (b c); None for other than matrices."""
    shapes = [dims_of(operand) for operand in (a, b, c)]
    (first, second, third) = shapes
    if first is None or second is None or third is None or {*map(len, shapes)} != {2}:  # type: ignore[arg-type]
        return None
    (i, k), (m, j), n = first, second, third[1]
    return i * k * j + i * j * n, m * j * n + i * k * n


def _less(cost: Dim, other: Dim) -> bool:
    """Whether one cost is less than another for all sizes from 1 on."""
    ones: dict[Any, Dim] = {size: sym(size.name) + 1 for size in syms(cost) | syms(other)}
    low, high = substitute(cost, ones), substitute(other, ones)
    return at_least(high, low) is True and equal(low, high) is not True
