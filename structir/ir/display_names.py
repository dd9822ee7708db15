"""Distinct names in messages for different symbolic dims or row variables of one name.

Programs that Python code builds may use two dims named `n`. Program text names them `n` and `n_1`;
a message does the same while `displayed` is active.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

_NAMES: ContextVar[Mapping[Any, str]] = ContextVar("display_names")
NO_NAMES: Mapping[Any, str] = {}


def display_name(symbol: Any) -> str:
    """Returns the name of a dim or row variable in the current message."""
    name: str = _NAMES.get(NO_NAMES).get(symbol) or symbol.name
    return name


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
    token = _NAMES.set({**_NAMES.get(NO_NAMES), **names})
    try:
        yield
    finally:
        _NAMES.reset(token)
