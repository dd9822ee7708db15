"""The registry of mappings: the function that writes the operations of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Mapped = Callable[[Any], Any]  # call -> results, or None where the mapping does not apply
MappedFunction = Callable[[Any, Any], Any]  # exporter and call -> results

_mappings: dict[str, Mapped] = {}
_functions: dict[str, MappedFunction] = {}


def exports(*names: str) -> Callable[[Mapped], Mapped]:
    """Registers the decorated function as the mapping of these ops.

    It receives an `HloCall` and returns an `HloTensor`, or a list of them for a tuple. Where it
    returns None, the call is derived from its index spec, or decomposed.
    """

    def register(mapping: Mapped) -> Mapped:
        _mappings.update(dict.fromkeys(names, mapping))
        return mapping

    return register


def exports_function(name: str) -> Callable[[MappedFunction], MappedFunction]:
    """Registers the decorated function as the mapping of an op on functions, or of calls of an
    external function."""

    def register(mapping: MappedFunction) -> MappedFunction:
        _functions[name] = mapping
        return mapping

    return register


def find_mapping(name: str) -> Mapped | None:
    """Returns the mapping of an op, or None."""
    return _mappings.get(name)


def find_function_mapping(name: str) -> MappedFunction | None:
    """Returns the mapping of an op on functions or of an external function, or None."""
    return _functions.get(name)
