"""Rewrites of matrix products: batching of parallel products, and chain order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate
from operator import mul
from typing import Any

import attrs

from structir.ir.dims import Dim, at_least, equal, substitute, sym, syms
from structir.ir.expr import Expr
from structir.ops.contract import matmul
from structir.ops.joined import concat, split
from structir.rewriting.guards import dims_of, dtype_of, made_by, rank_of
from structir.rewriting.rule import Parallel, rewrite


@rewrite
def combine_parallel_matmul(x: Expr, weights: Parallel) -> Iterator[Any]:
    """Combines products with one left operand: concatenates the right operands."""
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
def order_products(a: Expr, b: Expr) -> Iterator[Expr]:
    """Reorders a chain of matrix products to the provably cheapest order for all sizes.

    Where no order is cheapest for all sizes, any provably cheaper one is used.
    """
    yield matmul(a, b)
    now = _order(a, b)
    factors = [*_factors(now)]
    sizes = _sizes(factors)
    if sizes is not None and 2 < len(factors) <= LONGEST:
        best = _best(sizes, _steps(now, factors, sizes))
        if best is not None:
            yield _product(best, factors)


LONGEST = 24  # factors that are looked at together
MOST_ORDERS = 6  # of one part of a chain, where it is open which of them is the best

Order = Any  # of a chain: a factor, or the pair of what is multiplied


@attrs.frozen(eq=False)
class ChainOrder:
    """An order of part of a chain, and its number of multiplications."""

    order: Order
    steps: Dim


def _order(a: Expr, b: Expr) -> Order:
    """Returns the current order of a chain, through products with one use."""
    pair = []
    for operand in (a, b):
        parts = made_by(operand, matmul) if operand is a or rank_of(operand) == 2 else None
        pair.append(operand if parts is None else _order(*parts))
    return pair[0], pair[1]


def _factors(order: Order) -> Iterator[Expr]:
    """Returns the factors of a chain, from left to right."""
    if isinstance(order, tuple):
        yield from _factors(order[0])
        yield from _factors(order[1])
    else:
        yield order


def _sizes(factors: list[Expr]) -> list[Dim] | None:
    """Returns the sizes between the factors of a chain; None for unsupported operands."""
    shapes = [dims_of(factor) for factor in factors]
    if None in shapes or len({dtype_of(factor) for factor in factors}) != 1:
        return None
    first, *others = [shape for shape in shapes if shape is not None]
    if len(first) < 2 or any(len(shape) != 2 for shape in others):
        return None
    return [reduce(mul, first[:-1]), *[shape[0] for shape in others], others[-1][1]]


def _steps(order: Order, factors: list[Expr], sizes: list[Dim]) -> Dim:
    """Returns the number of multiplications of an order."""

    def walked(part: Order, start: int) -> tuple[int, Dim]:
        if not isinstance(part, tuple):
            return start + 1, 0
        middle, left = walked(part[0], start)
        end, right = walked(part[1], middle)
        return end, left + right + sizes[start] * sizes[middle] * sizes[end]

    return walked(order, 0)[1]


def _best(sizes: list[Dim], now: Dim) -> Order | None:
    """Returns an order that is provably cheaper than the current one, by dynamic programming."""
    count = len(sizes) - 1
    found: dict[tuple[int, int], list[ChainOrder]] = {
        (i, i): [ChainOrder(i, 0)] for i in range(count)
    }
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            found[i, j] = _undominated(
                ChainOrder(
                    (left.order, right.order),
                    left.steps + right.steps + sizes[i] * sizes[k + 1] * sizes[j + 1],
                )
                for k in range(i, j)
                for left in found[i, k]
                for right in found[k + 1, j]
            )
    better = [choice for choice in found[0, count - 1] if _less(choice.steps, now)]
    return better[0].order if better else None


def _undominated(choices: Iterator[ChainOrder]) -> list[ChainOrder]:
    """Returns the orders that no other provably beats."""
    kept: list[ChainOrder] = []
    for choice in choices:
        if any(_no_more(other.steps, choice.steps) for other in kept):
            continue
        kept = [other for other in kept if not _no_more(choice.steps, other.steps)]
        kept.append(choice)
    return kept[:MOST_ORDERS]


def _product(order: Order, factors: list[Expr]) -> Expr:
    if isinstance(order, tuple):
        return matmul(_product(order[0], factors), _product(order[1], factors))
    return factors[order]


def _no_more(cost: Dim, other: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes >= 1."""
    if isinstance(cost, int) and isinstance(other, int):
        return cost <= other
    ones: dict[Any, Dim] = {size: sym(size.name) + 1 for size in syms(cost) | syms(other)}
    return at_least(substitute(other, ones), substitute(cost, ones)) is True


def _less(cost: Dim, other: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes, and less for some."""
    return _no_more(cost, other) and equal(cost, other) is not True
