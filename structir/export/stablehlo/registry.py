"""The registry of mappings: the function that writes the operations of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.registry import Registry

Mapped = Callable[[Any], Any]  # call -> results, or None where the mapping does not apply
MappedFunction = Callable[[Any, Any], Any]  # exporter and call -> results

# A mapping receives an `HloCall` and returns an `HloTensor`, or a list of them for a tuple. Where
# it returns None, the call is derived from its index spec, or decomposed.
exports: Registry[str, Mapped] = Registry()
exports_function: Registry[str, MappedFunction] = Registry()  # ops on functions, and externals
