"""Parameters that options of `jit` select, and the values of static ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from structir.errors import Diagnostic, DiagnosticError
from structir.lazy import lazy_module
from structir.tracing.trees import TreeStructure

np = lazy_module("numpy")
Selected = frozenset[int | str]
Arguments = tuple[tuple[int | str, Any], ...]  # by position or name
PLAIN = frozenset({TreeStructure, bool, bytes, int, str})  # equal ones are the same


def selected(
    function: Callable[..., Any], option: str, numbers: Iterable[int], names: Iterable[str]
) -> Selected:
    """Returns the keys of parameters in calls: the position, the name, or both.

    Raises DiagnosticError for a position or a name that the function does not have.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function without a signature
        return frozenset({*numbers, *names})
    kinds = {p.kind for p in parameters}
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    keys: set[int | str] = set()
    for number in numbers:
        if not isinstance(number, int):
            raise _unknown(f"{option}argnums", "position", number, range(len(positional)))
        index = number + len(positional) if number < 0 else number
        is_rest = index >= len(positional) and inspect.Parameter.VAR_POSITIONAL in kinds
        if not is_rest and not 0 <= index < len(positional):
            raise _unknown(f"{option}argnums", "position", number, range(len(positional)))
        keys.add(index)
        keys |= {p.name for p in positional[index : index + 1] if p.name in keyword}
    for name in names:
        if name not in keyword and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise _unknown(f"{option}argnames", "name", name, list(keyword))
        keys.add(name)
        keys |= {k for k, p in enumerate(positional) if p.name == name and name in keyword}
    return frozenset(keys)


def _unknown(option: str, kind: str, found: Any, known: Sequence[Any]) -> DiagnosticError:
    message = f"jit: {option}: expected the {kind} of a parameter, found {found!r}"
    listed = ", ".join(map(repr, known))
    hint = f"use one of {listed}" if listed else f"omit `{option}`: no parameter has a {kind}"
    return DiagnosticError(Diagnostic(message, hint=hint, code="E1109"))


def kept_static(value: Any) -> Any:
    """Returns a static value to compare later ones with: a copy, if it can be changed.

    Raises DiagnosticError if it can neither be hashed nor copied.
    """
    try:
        hash(value)
    except TypeError:
        pass
    else:
        return value
    try:
        return deepcopy(value)
    except Exception as error:
        message = "jit: expected a static value that can be hashed or copied, "
        message += f"found {type(value).__name__}"
        hint = "pass a hashable value, such as a tuple instead of a list"
        raise DiagnosticError(Diagnostic(message, hint=hint, code="E1109")) from error


def same_static(first: Arguments, second: Arguments) -> bool:
    """Whether the static arguments of two calls, by position or name, have the same program: the
    values are equal and of one type."""
    if len(first) != len(second):
        return False
    for (key, value), (other_key, other) in zip(first, second, strict=True):
        if key != other_key or not (value is other or _same(value, other)):
            return False
    return True


def _same(first: Any, second: Any) -> bool:
    kind = type(first)
    if kind is not type(second):
        return False
    if kind in PLAIN:
        return bool(first == second)
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(map(_same, first.values(), second.values()))
    if isinstance(first, float):
        return first.hex() == second.hex()
    if isinstance(first, np.ndarray | np.generic):
        if first.dtype != second.dtype or first.shape != second.shape:
            return False
        if first.dtype.hasobject:
            return _same(first.tolist(), second.tolist())
        return first.tobytes() == second.tobytes()  # as for floats, NaN is NaN, and -0.0 not 0.0
    return first is second or bool(first == second)
