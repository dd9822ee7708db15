"""Checks the options of plans: sizes, and numbers of workers and of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from structir.errors import Diagnostic, DiagnosticError


def checked_sizes(sizes: Any) -> dict[str, Any]:
    """Returns sizes by name as integers, and the lengths of rows as they are.

    Raises DiagnosticError unless `sizes` is a dict of these, or None.
    """
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise _invalid("sizes: expected a dict", sizes, '`sizes={"n": 128}`', "E0909")
    return {name: _checked_size(name, size) for name, size in sizes.items()}


def _checked_size(name: str, size: Any) -> Any:
    if hasattr(size, "__len__") and not isinstance(size, str):
        return size
    if not _is_size(size):
        message = f"sizes: {name}: expected an integer of at least 0"
        raise _invalid(message, size, f'`sizes={{"{name}": 128}}`', "E0909")
    return int(size)


def checked_grid(grid: Any) -> tuple[int, ...]:
    """Returns a grid as integers; raises DiagnosticError for other values."""
    is_grid = isinstance(grid, Sequence) and not isinstance(grid, str)
    if not is_grid or not all(map(_is_integer, grid)):
        raise _invalid("grid: expected one integer for each axis", grid, "`grid=(2, 1)`", "E0903")
    return tuple(map(int, grid))


def check_count(name: str, count: Any) -> None:
    """Raises DiagnosticError unless an option is a positive integer."""
    if not _is_size(count) or count < 1:
        raise _invalid(f"{name} must be a positive integer", count, f"`{name}=1`", "E0903")


def _is_size(value: Any) -> bool:
    return _is_integer(value) and int(value) >= 0


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _invalid(expected: str, actual: Any, hint: str, code: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(f"{expected}, found {actual!r}", hint=hint, code=code))
