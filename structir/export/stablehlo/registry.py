"""The registry of mappings: the function that writes the operations of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.registry import RegistrationTable

Mapped = Callable[[Any], Any]  # call -> results, or None where the mapping does not apply
MappedFunction = Callable[[Any, Any], Any]  # exporter and call -> results

mappings: RegistrationTable[str, Mapped] = RegistrationTable()
# of ops on functions, and of external functions
exports_function: RegistrationTable[str, MappedFunction] = RegistrationTable()


def exports(*names: str) -> Callable[[Mapped], Mapped]:
    """Registers the decorated function as the mapping of these ops.

    It receives an `HloCall` and returns an `HloTensor`, or a list of them for a tuple. Where it
    returns None, the call is derived from its index spec, or decomposed.
    """
    return mappings(*names)
