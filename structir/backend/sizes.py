"""Evaluates all integers of a plan from the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from math import prod

import numpy as np

from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym

Evaluate = Callable[..., tuple[int, ...]]
LIMIT = 1 << 63  # of 64-bit arithmetic
VECTOR_VALUES = 16  # fewer values are evaluated one by one


def symbols_of(values: Iterable[Dim]) -> list[Sym]:
    """Returns all symbols of some dims, in order of creation."""
    symbols: set[Sym] = set()
    for value in values:
        symbols |= dims.syms(value)
    return sorted(symbols, key=lambda s: s.order)


def evaluator(values: Sequence[Dim], symbols: Sequence[Sym]) -> Evaluate:
    """Returns a function from the sizes of symbols to the values of dims, each evaluated once.

    It runs no generated code, since a plan may come from a file. Products of sizes are multiplied
    as Python integers. Their weighted sums are 64-bit vectors if no sum can overflow.
    """
    distinct = list(dict.fromkeys(values))
    number_of = {dim: number for number, dim in enumerate(distinct)}
    order = [number_of[value] for value in values]

    def exact(sizes: Sequence[int]) -> tuple[int, ...]:
        assignment = dict(zip(symbols, sizes, strict=True))
        computed = [dims.evaluate(dim, assignment) for dim in distinct]
        return tuple([computed[number] for number in order])

    if len(distinct) < VECTOR_VALUES:
        return lambda *sizes: exact(sizes)
    sums = WeightedSums(distinct, symbols)
    indices = np.array(order, np.int64)

    def evaluate(*sizes: int) -> tuple[int, ...]:
        products = sums.products(sizes)
        if max(products) * sums.largest >= LIMIT or min(products) * sums.largest <= -LIMIT:
            return exact(sizes)
        terms = sums.weights * np.array(products, np.int64)[sums.terms]
        return tuple(np.add.reduceat(terms, sums.starts)[indices].tolist())

    return evaluate


class WeightedSums:
    """Dims as weighted sums of products of sizes; the first product is 1."""

    def __init__(self, distinct: Sequence[Dim], symbols: Sequence[Sym]) -> None:
        self.symbols = symbols
        index_of = {symbol: index for index, symbol in enumerate(symbols)}
        rows = [
            {(): dim.constant, **dim.terms} if type(dim) is Poly else {(): dim} for dim in distinct
        ]
        numbers = {m: k for k, m in enumerate(dict.fromkeys([(), *chain(*rows)]))}
        self.largest = max([sum(map(abs, row.values())) for row in rows])
        is_small = self.largest < LIMIT
        self.weights = np.array([w if is_small else 0 for row in rows for w in row.values()])
        self.terms = np.array([numbers[m] for row in rows for m in row], np.int64)
        self.starts = np.cumsum([0, *[len(row) for row in rows]])[:-1]
        self._single = [_single(m, index_of) for m in numbers]
        self._dims = [Poly({m: 1}, 0) if m else 1 for m in numbers]

    def products(self, sizes: Sequence[int]) -> list[int]:
        """Returns the value of every product."""
        assignment: Mapping[Sym, int] = dict(zip(self.symbols, sizes, strict=True))
        return [
            dims.evaluate(dim, assignment) if factors is None else prod([sizes[k] for k in factors])
            for factors, dim in zip(self._single, self._dims, strict=True)
        ]


def _single(monomial: Sequence[object], index_of: Mapping[Sym, int]) -> list[int] | None:
    """Returns the indices of the factors; None if a factor is not a symbol."""
    indices = [index_of.get(atom) if type(atom) is Sym else None for atom in monomial]
    return None if None in indices else [k for k in indices if k is not None]
