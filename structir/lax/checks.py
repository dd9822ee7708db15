"""Checks of the arguments of primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.tracing.array import TracedArray


def invalid(message: str, hint: str | None = None) -> DiagnosticError:
    """Returns the error of an argument."""
    return DiagnosticError(Diagnostic(message, hint=hint, code="E1107"))


def per_axis(values: Any, array: TracedArray, name: str) -> list[Any]:
    """Returns one value for each axis. Raises DiagnosticError for another number of them."""
    items = sequence(values, name)
    if len(items) != array.ndim:
        raise invalid(f"{name}: expected one for each of {array.ndim} axes, found {len(items)}")
    return items


def sequence(values: Any, name: str) -> list[Any]:
    """Returns the elements of a sequence or a vector. Raises DiagnosticError for another value."""
    if isinstance(values, Sequence) and not isinstance(values, str):
        return list(values)
    shape: Any = getattr(values, "shape", ())
    if len(shape) != 1:
        raise invalid(f"{name}: expected a sequence, found {values!r}", f"`{name}=({values!r},)`")
    return [values[k] for k in range(shape[0])]


def is_known(value: Any) -> bool:
    """Whether a size or position is a Python int."""
    return isinstance(value, int)
