"""The registry of mappings: the function that writes the nodes of each op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Mapped = Callable[[Any], Any]  # call -> names of results, or None where the mapping does not apply

_mappings: dict[str, Mapped] = {}


def exports(*names: str) -> Callable[[Mapped], Mapped]:
    """Registers the decorated function as the mapping of these ops.

    It writes nodes and returns the name of the result, or a list of names for a tuple. Where it
    returns None, the op is decomposed.
    """

    def register(mapping: Mapped) -> Mapped:
        _mappings.update(dict.fromkeys(names, mapping))
        return mapping

    return register


def direct(ops: Mapping[str, str]) -> None:
    """Registers ops that are one ONNX op on the same operands, without attributes."""
    for name, op_type in ops.items():
        exports(name)(_direct_mapping(op_type))


def _direct_mapping(op_type: str) -> Mapped:
    return lambda call: call.emit(op_type, *call.operands)


def find_mapping(name: str) -> Mapped | None:
    """Returns the mapping of an op, or None."""
    return _mappings.get(name)


def mapped_ops() -> list[str]:
    """Returns the names of all ops with a mapping."""
    return sorted(_mappings)
