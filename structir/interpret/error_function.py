"""The external function that stops a program with a message."""

from __future__ import annotations

from typing import NoReturn

from structir.errors import ShapeMismatchError
from structir.interpret.extern import register_extern


def because(message: str) -> NoReturn:
    """Raises ShapeMismatchError with a message."""
    raise ShapeMismatchError(message)


register_extern("fail.because", because)
