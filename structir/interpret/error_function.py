"""A function from outside that never gives anything: it says why a program cannot go on."""

from __future__ import annotations

from typing import NoReturn

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern


def because(message: str) -> NoReturn:
    """Stop the program with a message."""
    raise ShapeMismatchError(message)


register_extern("fail.because", because)
