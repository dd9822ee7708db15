"""Rejects NumPy arrays with a mask: no value of a program can represent the mask."""

from __future__ import annotations

from typing import TypeVar

from structir.errors import Diagnostic, DiagnosticError

Value = TypeVar("Value")
EXPECTED = "expected an array without a mask, found a numpy.ma.MaskedArray"
HINT = "pass `x.filled(0)`, and `x.mask` as an argument of its own"


def unmasked(value: Value) -> Value:
    """Returns a value unchanged; raises DiagnosticError for an array with a mask."""
    if hasattr(value, "filled") and hasattr(value, "mask"):
        raise DiagnosticError(Diagnostic(EXPECTED, hint=HINT, code="E0305"))
    return value
