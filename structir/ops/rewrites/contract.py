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
    if sizes is not None and 2 < len(factors) <= MAX_FACTORS:
        best = _cheapest_order(sizes, _steps(now, factors, sizes))
        if best is not None:
            yield _product(best, factors)


MAX_FACTORS = 24  # factors of a chain that is reordered
MAX_ORDERS = 6  # undominated orders kept per subchain

Order = Any  # the index of a factor, or a pair of orders


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

    def count(part: Order, start: int) -> tuple[int, Dim]:
        if not isinstance(part, tuple):
            return start + 1, 0
        middle, left_steps = count(part[0], start)
        end, right_steps = count(part[1], middle)
        return end, left_steps + right_steps + sizes[start] * sizes[middle] * sizes[end]

    return count(order, 0)[1]


def _cheapest_order(sizes: list[Dim], now: Dim) -> Order | None:
    """Returns an order that is provably cheaper than the current one, by dynamic programming."""
    count = len(sizes) - 1
    orders: dict[tuple[int, int], list[ChainOrder]] = {
        (i, i): [ChainOrder(i, 0)] for i in range(count)
    }
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            orders[i, j] = _pareto_orders(
                ChainOrder(
                    (left.order, right.order),
                    left.steps + right.steps + sizes[i] * sizes[k + 1] * sizes[j + 1],
                )
                for k in range(i, j)
                for left in orders[i, k]
                for right in orders[k + 1, j]
            )
    better = [choice for choice in orders[0, count - 1] if _less(choice.steps, now)]
    return better[0].order if better else None


def _pareto_orders(choices: Iterator[ChainOrder]) -> list[ChainOrder]:
    """Returns the orders that no other order provably beats."""
    undominated: list[ChainOrder] = []
    for choice in choices:
        if any(_at_most(other.steps, choice.steps) for other in undominated):
            continue
        undominated = [other for other in undominated if not _at_most(choice.steps, other.steps)]
        undominated.append(choice)
    return undominated[:MAX_ORDERS]


def _product(order: Order, factors: list[Expr]) -> Expr:
    if isinstance(order, tuple):
        return matmul(_product(order[0], factors), _product(order[1], factors))
    return factors[order]


def _at_most(cost: Dim, bound: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes >= 1."""
    if isinstance(cost, int) and isinstance(bound, int):
        return cost <= bound
    ones: dict[Any, Dim] = {size: sym(size.name) + 1 for size in syms(cost) | syms(bound)}
    return at_least(substitute(bound, ones), substitute(cost, ones)) is True


def _less(cost: Dim, bound: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes, and less for some."""
    return _at_most(cost, bound) and equal(cost, bound) is not True
