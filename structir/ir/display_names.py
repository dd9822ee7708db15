"""Distinct names in messages for different symbolic dims or row variables of one name.

Programs that Python code builds may use two dims named `n`. Program text names them `n` and `n_1`;
a message within `one_message` does the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, count
from typing import Any


class _MessageNames(dict[Any, str]):
    """The names in one message, assigned when a dim or row variable is first displayed."""

    def __missing__(self, symbol: Any) -> str:
        """Assigns the name of the symbol, or with a number if another symbol displays it."""
        taken = {(type(other), name) for other, name in self.items()}
        numbered = (f"{symbol.name}_{k}" for k in count(1))
        candidates = chain((symbol.name,), numbered)
        self[symbol] = next(name for name in candidates if (type(symbol), name) not in taken)
        return self[symbol]


_NAMES: ContextVar[_MessageNames | None] = ContextVar("display_names", default=None)


def display_name(symbol: Any) -> str:
    """Returns the name of a dim or row variable in the current message."""
    names = _NAMES.get()
    name: str = symbol.name
    return name if names is None or not name else names[symbol]


@contextmanager
def one_message(*first: object) -> Iterator[None]:
    """Displays different dims and row variables of one name under distinct names.

    Everything that is printed inside belongs to one message. An inner scope extends the outer one.
    The dims in `first` are displayed under their own names.
    """
    if _NAMES.get() is not None:
        yield
        return
    token = _NAMES.set(_MessageNames())
    try:
        for item in first:
            str(item)  # assigns the names
        yield
    finally:
        _NAMES.reset(token)
