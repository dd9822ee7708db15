"""Functions from outside the program, by the names that programs call them by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import StructIRError

_functions: dict[str, Callable[..., Any]] = {}
_by_form: set[str] = set()


def register_extern(
    name: str, function: Callable[..., Any], by_form: bool = False
) -> Callable[..., Any]:
    """Make a Python function known to `R.call_packed` and `R.call_pure_packed`.

    It receives and returns run-time values: NumPy arrays, tuples, tuples of ints for shapes, plain
    numbers. One that works `by_form` moves values without looking into them, and does nothing else:
    it may also be run once, for all values of the same forms."""
    _functions[name] = function
    (_by_form.add if by_form else _by_form.discard)(name)
    return function


def is_by_form(name: str) -> bool:
    """Whether a function does not look into the values that it is given."""
    return name in _by_form


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
