"""Distinct names in messages for different symbolic dims or row variables of one name.

Programs that Python code builds may use two dims named `n`. Program text names them `n` and `n_1`;
a message does the same while `displayed` is active.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, count
from typing import Any

_NAMES: ContextVar[dict[Any, str]] = ContextVar("display_names")
NO_NAMES: dict[Any, str] = {}


def display_name(symbol: Any) -> str:
    """Returns the name of a dim or row variable in the current message."""
    names = _NAMES.get(NO_NAMES)
    name: str = names.get(symbol) or symbol.name
    if type(names) is _MessageNames and symbol not in names and name:
        return names.assign(symbol)
    return name


class _MessageNames(dict[Any, str]):
    """The names in one message, assigned when a dim or row variable is first displayed."""

    def assign(self, symbol: Any) -> str:
        """Assigns the name of the symbol, or with a number if another symbol displays it."""
        taken = {(type(other), name) for other, name in self.items()}
        numbered = (f"{symbol.name}_{k}" for k in count(1))
        candidates = chain((symbol.name,), numbered)
        self[symbol] = next(name for name in candidates if (type(symbol), name) not in taken)
        return self[symbol]


def distinct_names(symbols: Iterable[Any]) -> Mapping[Any, str]:
    """Returns new names of the symbols whose name an earlier symbol has; empty without any."""
    unique = dict.fromkeys(symbols)
    taken = {symbol.name for symbol in unique}
    owners: dict[str, Any] = {}
    names: dict[Any, str] = {}
    for symbol in unique:
        if owners.setdefault(symbol.name, symbol) is symbol or not symbol.name:
            continue
        numbered = (f"{symbol.name}_{k}" for k in count(1))
        names[symbol] = next(name for name in numbered if name not in taken)
        taken.add(names[symbol])
    return names


@contextmanager
def displayed(names: Mapping[Any, str]) -> Iterator[None]:
    """Displays these names in messages."""
    outer = _NAMES.get(NO_NAMES)
    token = _NAMES.set(type(outer)({**outer, **names}))
    try:
        yield
    finally:
        _NAMES.reset(token)


@contextmanager
def one_message() -> Iterator[None]:
    """Displays different dims and row variables of one name under distinct names.

    Everything that is printed inside belongs to one message. An inner scope extends the outer one.
    """
    outer = _NAMES.get(NO_NAMES)
    if type(outer) is _MessageNames:
        yield
        return
    token = _NAMES.set(_MessageNames(outer))
    try:
        yield
    finally:
        _NAMES.reset(token)
