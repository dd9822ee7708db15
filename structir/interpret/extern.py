"""Functions from outside the program, by the names that programs call them by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import StructIRError

_functions: dict[str, Callable[..., Any]] = {}


def register_extern(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a Python function known to `R.call_packed` and `R.call_pure_packed`.

    It receives and returns run-time values: NumPy arrays, tuples, tuples of ints for shapes, plain
    numbers."""
    _functions[name] = function
    return function


def find_extern(name: str) -> Callable[..., Any]:
    """The function registered under a name."""
    if not name:
        raise StructIRError(
            'R.sig states sizes alone: R.sig("...", function="name") says what runs'
        )
    found = _functions.get(name)
    if found is None:
        raise StructIRError(
            f"no external function {name!r}: give it to structir.interpret.register_extern first"
        )
    return found
