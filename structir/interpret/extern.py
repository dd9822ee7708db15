"""The registry of external functions, by the names in programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.errors import StructIRError

_functions: dict[str, Callable[..., Any]] = {}
_by_form: set[str] = set()


def register_extern(
    name: str, function: Callable[..., Any], by_form: bool = False
) -> Callable[..., Any]:
    """Registers a Python function for `R.call_packed` and `R.call_pure_packed`; returns it.

    The function receives and returns run-time values: NumPy arrays, tuples, tuples of ints for
    shapes, plain numbers. A function registered with `by_form` has no side effects and only moves
    values, without reading elements; the compiler may call it once for all values of the same
    shapes and dtypes.
    """
    _functions[name] = function
    (_by_form.add if by_form else _by_form.discard)(name)
    return function


def is_by_form(name: str) -> bool:
    """Whether a function depends only on shapes and dtypes of its arguments."""
    return name in _by_form


def find_extern(name: str) -> Callable[..., Any]:
    """Returns the function registered under a name."""
    if not name:
        raise StructIRError(
            'R.sig without a function cannot run; help: `R.sig("...", function="name")`'
        )
    function = _functions.get(name)
    if function is None:
        hint = f"help: `structir.interpret.register_extern({name!r}, function)`"
        raise StructIRError(f"unknown external function {name!r}; {hint}")
    return function
