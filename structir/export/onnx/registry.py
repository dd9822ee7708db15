"""The registry of mappings: the function that writes the nodes of each op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from structir.ir.registry import RegistrationTable

Mapped = Callable[[Any], Any]  # call -> names of results, or None where the mapping does not apply

mappings: RegistrationTable[str, Mapped] = RegistrationTable()


def exports(*names: str) -> Callable[[Mapped], Mapped]:
    """Registers the decorated function as the mapping of these ops.

    It writes nodes and returns the name of the result, or a list of names for a tuple. Where it
    returns None, the op is decomposed.
    """
    return mappings(*names)


def direct(ops: Mapping[str, str]) -> None:
    """Registers ops that are one ONNX op on the same operands, without attributes."""
    for name, op_type in ops.items():
        exports(name)(_direct_mapping(op_type))


def _direct_mapping(op_type: str) -> Mapped:
    return lambda call: call.emit(op_type, *call.operands)
