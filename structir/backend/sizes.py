"""Evaluates all integers of a plan from the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from structir.ir import dims
from structir.ir.dims import Dim, Sym

Evaluate = Callable[..., tuple[int, ...]]


def symbols_of(values: Iterable[Dim]) -> list[Sym]:
    """Returns all symbols of some dims, in order of creation."""
    symbols: set[Sym] = set()
    for value in values:
        symbols |= dims.syms(value)
    return sorted(symbols, key=lambda s: s.order)


def evaluator(values: Sequence[Dim], symbols: Sequence[Sym]) -> Evaluate:
    """Returns a function from the sizes of symbols to the values of dims, each evaluated once.

    It runs no generated code, since a plan may come from a file.
    """
    distinct = list(dict.fromkeys(values))
    number_of = {dim: number for number, dim in enumerate(distinct)}
    order = [number_of[value] for value in values]

    def evaluate(*sizes: int) -> tuple[int, ...]:
        assignment = dict(zip(symbols, sizes, strict=True))
        computed = [dims.evaluate(dim, assignment) for dim in distinct]
        return tuple([computed[number] for number in order])

    return evaluate
