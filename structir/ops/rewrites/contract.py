"""Rewrites of matrix products: batching of parallel products, and chain order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate
from operator import mul
from string import ascii_lowercase
from typing import Any

import attrs

from structir.ir.dims import Dim, at_least, equal, substitute, sym, syms
from structir.ir.expr import Expr
from structir.opdef.attributes import Axes
from structir.ops.broadcast import multiply
from structir.ops.contract import einsum, matmul
from structir.ops.joined import concat, split
from structir.ops.layout import permute_dims
from structir.ops.reduce import sum_
from structir.rewriting.guards import (
    call_of,
    dims_of,
    dtype_of,
    is_dense,
    made_by,
    rank_of,
    used_once,
)
from structir.rewriting.rule import Parallel, rewrite

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


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


@rewrite(tolerance=1e-3)
def sum_of_products_as_einsum(x: Expr, y: Expr, axis: Axes | None) -> Iterator[Expr]:
    """Rewrites a sum of products to an einsum, without the tensor of the products.

    Operands may broadcast. The sum is over floats, because integers overflow at other places.
    """
    product = multiply(x, y)
    yield sum_(product, axis)
    ranks = [rank_of(value) for value in (x, y, product)]
    is_float = dtype_of(product) in FLOATS and is_dense(product)
    if None not in ranks and used_once(product) and is_float:
        rank = ranks[2] or 0
        axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else axis
        summed = {each % rank for each in axes}
        letters = ascii_lowercase[:rank]
        kept = "".join([letter for k, letter in enumerate(letters) if k not in summed])
        if rank <= len(ascii_lowercase):
            terms = [letters[rank - (each or 0) :] for each in ranks[:2]]
            yield einsum((x, y), f"{terms[0]},{terms[1]}->{kept}")


@rewrite(group="reorder_matmul", tolerance=1e-3)
def order_products(a: Expr, b: Expr) -> Iterator[Expr]:
    """Reorders a chain of matrix products to the provably cheapest order for all sizes.

    Where no order is cheapest for all sizes, any provably cheaper one is used. The first and the
    last factor may be vectors, all may have batch axes, and a product may be transposed.
    """
    yield matmul(a, b)
    now = _order(a, b)
    factors = [*_factors(now)]
    chain = _chain(factors) if 2 < len(factors) <= MAX_FACTORS else None
    if chain is not None:
        best = _cheapest_order(chain, _steps(now, chain))
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


@attrs.frozen(eq=False)
class Factor:
    """A factor of a chain: a value, or the transpose of a matrix."""

    value: Expr
    is_transposed: bool = False

    @property
    def dims(self) -> tuple[Dim, ...] | None:
        """The dims of the factor; None where unknown."""
        dims = dims_of(self.value)
        return dims[::-1] if dims is not None and self.is_transposed else dims


@attrs.frozen(eq=False)
class Chain:
    """The sizes between the factors of a chain, and the batch sizes of each factor."""

    sizes: list[Dim]
    batches: list[tuple[Dim, ...]]

    def steps(self, start: int, middle: int, end: int) -> Dim:
        """Returns the number of multiplications of the product of two parts of the chain."""
        batch = reduce(mul, _joint_batch(self.batches[start:end]) or (), 1)
        return batch * self.sizes[start] * self.sizes[middle] * self.sizes[end]


def _order(a: Expr, b: Expr) -> Order:
    """Returns the current order of a chain, through products and transposes with one use."""
    left, right = made_by(a, matmul), made_by(b, matmul)
    first = _order(*left) if left is not None and rank_of(left[1]) != 1 else _transposed(a)
    last = _order(*right) if right is not None and rank_of(right[0]) != 1 else _transposed(b)
    return first, last


def _transposed(value: Expr) -> Order:
    """Returns the factors of the transpose of a product of matrices, or the value itself."""
    call = call_of(value, permute_dims)
    product = None if call is None else made_by(call.args[0], matmul)
    axes = None if call is None else call.attrs.get("axes")
    if product is None or any(rank_of(x) != 2 for x in product):
        return Factor(value)
    if axes is not None and [axis % 2 for axis in axes] != [1, 0]:
        return Factor(value)
    order = _order(*product)
    are_matrices = all(rank_of(factor.value) == 2 for factor in _factors(order))
    return _reversed(order) if are_matrices else Factor(value)


def _reversed(order: Order) -> Order:
    """Returns the order of the transposed product."""
    if isinstance(order, tuple):
        return _reversed(order[1]), _reversed(order[0])
    return Factor(order.value, not order.is_transposed)


def _factors(order: Order) -> Iterator[Factor]:
    """Returns the factors of a chain, from left to right."""
    if isinstance(order, tuple):
        yield from _factors(order[0])
        yield from _factors(order[1])
    else:
        yield order


def _chain(factors: list[Factor]) -> Chain | None:
    """Returns the sizes of a chain; None for unsupported operands."""
    shapes = [factor.dims for factor in factors]
    if None in shapes or len({dtype_of(factor.value) for factor in factors}) != 1:
        return None
    first, *others = [shape for shape in shapes if shape is not None]
    if not first or any(len(shape) < 2 for shape in others[:-1]) or not others[-1]:
        return None
    is_vector = len(others[-1]) == 1
    rows = first[-2] if len(first) > 1 else 1
    inner = [shape[-2] for shape in others[:-1]]
    last = others[-1][0] if is_vector else others[-1][-2]
    batches = [first[:-2], *[shape[:-2] for shape in others]]
    has_vectors = is_vector or len(first) == 1
    if _joint_batch(batches) is None or (has_vectors and any(batches)):
        return None
    return Chain([rows, *inner, last, 1 if is_vector else others[-1][-1]], batches)


def _joint_batch(batches: list[tuple[Dim, ...]]) -> tuple[Dim, ...] | None:
    """Returns the batch sizes to which those of factors broadcast; None where unknown."""
    joint: list[Dim] = []
    for k in range(1, max(map(len, batches)) + 1):
        sizes = [batch[-k] for batch in batches if len(batch) >= k and batch[-k] != 1]
        if any(equal(size, sizes[0]) is not True for size in sizes):
            return None
        joint.append(sizes[0] if sizes else 1)
    return tuple(joint)


def _steps(order: Order, chain: Chain) -> Dim:
    """Returns the number of multiplications of an order."""

    def count(part: Order, start: int) -> tuple[int, Dim]:
        if not isinstance(part, tuple):
            return start + 1, 0
        middle, left_steps = count(part[0], start)
        end, right_steps = count(part[1], middle)
        return end, left_steps + right_steps + chain.steps(start, middle, end)

    return count(order, 0)[1]


def _cheapest_order(chain: Chain, now: Dim) -> Order | None:
    """Returns an order that is provably cheaper than the current one, by dynamic programming."""
    count = len(chain.batches)
    orders: dict[tuple[int, int], list[ChainOrder]] = {
        (i, i): [ChainOrder(i, 0)] for i in range(count)
    }
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            orders[i, j] = _pareto_orders(
                ChainOrder(
                    (left.order, right.order),
                    left.steps + right.steps + chain.steps(i, k + 1, j + 1),
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


def _product(order: Order, factors: list[Factor]) -> Expr:
    if isinstance(order, tuple):
        return matmul(_product(order[0], factors), _product(order[1], factors))
    factor: Factor = factors[order]
    return permute_dims(factor.value) if factor.is_transposed else factor.value


def _at_most(cost: Dim, bound: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes >= 1."""
    if isinstance(cost, int) and isinstance(bound, int):
        return cost <= bound
    ones: dict[Any, Dim] = {size: sym(size.name) + 1 for size in syms(cost) | syms(bound)}
    return at_least(substitute(bound, ones), substitute(cost, ones)) is True


def _less(cost: Dim, bound: Dim) -> bool:
    """Returns whether a cost is at most another for all sizes, and less for some."""
    return _at_most(cost, bound) and equal(cost, bound) is not True
