"""Generated Python that works out all integers of a plan from the sizes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from structir.ir import dims
from structir.ir.dims import Dim, Sym

Evaluate = Callable[..., tuple[int, ...]]


def symbols_of(values: Iterable[Dim]) -> list[Sym]:
    """All symbols of some dims, in order of their making."""
    found: set[Sym] = set()
    for value in values:
        found |= dims.syms(value)
    return sorted(found, key=lambda s: s.order)


def evaluator(values: Sequence[Dim], symbols: Sequence[Sym]) -> Evaluate:
    """A function from the sizes of symbols, in order, to the values of dims; each is computed
    once."""
    names = {symbol: f"s{i}" for i, symbol in enumerate(symbols)}
    known: dict[Dim, str] = {}
    lines = []
    for value in values:
        if value not in known and not isinstance(value, int):
            known[value] = f"t{len(known)}"
            text = dims.python_text(value, names.__getitem__)
            lines.append(f"    {known[value]} = int({text})")
    results = [str(v) if isinstance(v, int) else known[v] for v in values]
    head = f"def evaluate({', '.join(names.values())}):"
    tail = f"    return ({''.join(f'{r}, ' for r in results)})"
    scope: dict[str, Any] = {}
    exec("\n".join([head, *lines, tail]), scope)
    return _checked(scope["evaluate"], values, symbols)


def _checked(function: Evaluate, values: Sequence[Dim], symbols: Sequence[Sym]) -> Evaluate:
    """A function that tells which of its dims divides by zero."""

    def checked(*sizes: int) -> tuple[int, ...]:
        try:
            return function(*sizes)
        except ZeroDivisionError:
            known = dict(zip(symbols, sizes, strict=True))
            return tuple([dims.evaluate(value, known) for value in values])

    return checked
