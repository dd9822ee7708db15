"""Ensures that callers own results: no array shares memory with a constant, an argument or another
result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.lib.array_utils import byte_bounds

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.donation import donated_of
from structir.errors import ShapeMismatchError
from structir.interpret.scope import Closure, Value
from structir.ir.expr import Function, Var
from structir.ir.ragged_array import RaggedArray

Copy = Callable[[Any], Any]


def owned(value: Value, args: Sequence[Value], copy: Copy = np.array) -> Value:
    """Returns the result of a call, with a copy of each array that the caller does not own."""
    existing = [a for a in _arrays(args) if isinstance(a, np.ndarray)]
    return _owned(value, existing, copy)


def owning(function: Callable[..., Value]) -> Callable[..., Value]:
    """Returns a function whose results belong to the caller."""
    return lambda *args, **names: owned(function(*args, **names), (*args, *names.values()))


def donating(name: str, function: Any, run: Callable[..., Value]) -> Callable[..., Value]:
    """Returns `run`, which checks donated arguments first if the function declares any."""
    donated = donated_of(function) if isinstance(function, Function) else {}
    if not donated:
        return run

    def checked(*args: Value, **names: Value) -> Value:
        arguments = arguments_of(
            name, function.params, args, names, partial(default_values, function)
        )
        check_donated(name, function.params, arguments, donated)
        return run(*arguments)

    return checked


def check_donated(
    name: str, params: Sequence[Var], args: Sequence[Value], donated: Collection[int]
) -> None:
    """Raises ShapeMismatchError unless results can take the memory of each donated argument."""
    for index in donated:
        array, where = args[index], f"{name}: donated parameter {params[index].name}"
        flags = array.flags if isinstance(array, np.ndarray) else None
        if flags is None or not (flags.c_contiguous and flags.aligned and flags.writeable):
            actual = type(array).__name__
            if flags is not None:
                actual = "a view that is not dense" if flags.writeable else "a read-only array"
            raise _not_donated(where, "a writable dense array", actual, params[index].name)
    shared = _shared(args, donated)
    if shared is not None:
        first, second = (params[k].name for k in shared)
        where, actual = f"{name}: donated parameter {first}", f"memory shared with {second}"
        raise _not_donated(where, "an array of its own", actual, first)


def _shared(args: Sequence[Value], donated: Collection[int]) -> tuple[int, int] | None:
    """Returns a donated argument and another one that overlaps it in memory; None if there is none.

    In the order of their addresses, an array overlaps an earlier one if it starts before the
    furthest end so far.
    """
    spans = []
    for k, value in enumerate(args):
        if isinstance(value, np.ndarray) and value.size:
            start = value.__array_interface__["data"][0]
            if value.flags.c_contiguous:
                spans.append((start, start + value.nbytes, k))
            else:
                spans.append((*byte_bounds(value), k))
    spans.sort()
    furthest, last = 0, 0
    for start, end, k in spans:
        if start < furthest and (k in donated or last in donated):
            return (k, last) if k in donated else (last, k)
        if end > furthest:
            furthest, last = end, k
    return None


def _not_donated(where: str, expected: str, actual: str, param: str) -> ShapeMismatchError:
    hint = f"help: pass a copy: `numpy.array({param})`"
    message = f"{where}: expected {expected}, found {actual}\n{hint}"
    return ShapeMismatchError(message, code="E0723")


def copied(value: Value) -> Value:
    """Returns a value with a copy of each array."""
    if isinstance(value, np.ndarray):
        return np.array(value)
    if type(value) is RaggedArray:
        return value.with_values(np.array(value.values))
    return tuple([copied(item) for item in value]) if isinstance(value, tuple) else value


def _owned(value: Value, existing: list[Any], copy: Copy) -> Value:
    if isinstance(value, np.ndarray):
        result = value if _is_new(value, existing) else copy(value)
        existing.append(result)
        return result
    if isinstance(value, tuple):
        return tuple([_owned(item, existing, copy) for item in value])
    if type(value) is RaggedArray:
        values = _owned(value.values, existing, copy)
        return value if values is value.values else value.with_values(values)
    if isinstance(value, Closure):  # every call reads the captured arrays again
        inner = value.call
        return attrs.evolve(value, call=lambda me, args: copied(inner(value, args)))
    return value


def _is_new(array: Any, existing: list[Any]) -> bool:
    """Whether no other value references the memory of an array.

    Constants and their views are read-only. Memory that NumPy did not allocate belongs to an
    argument.
    """
    if not array.flags.writeable or any(
        np.may_share_memory(array, array_in_use) for array_in_use in existing
    ):
        return False
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root.base is None


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [array for item in value for array in _arrays(item)]
    return [value.values] if type(value) is RaggedArray else [value]
