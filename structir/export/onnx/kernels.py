"""Mappings of kernels, external functions and ops on functions that have an ONNX form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.kernel import Kernel

Mapped = Callable[[Any, Any], Any]  # exporter and call -> names of results

_kernels: list[Callable[[Kernel], Mapped | None]] = []
_externs: dict[str, Mapped] = {}


def exports_kernels(match: Callable[[Kernel], Mapped | None]) -> Callable[[Kernel], Mapped | None]:
    """Registers a function that returns the mapping of a kernel it knows, or None."""
    _kernels.append(match)
    return match


def exports_extern(name: str) -> Callable[[Mapped], Mapped]:
    """Registers the decorated function as the mapping of calls of an external function, or of an
    op that takes a function."""

    def register(mapping: Mapped) -> Mapped:
        _externs[name] = mapping
        return mapping

    return register


def find_kernel_mapping(kernel: Kernel) -> Mapped | None:
    """Returns the function that writes a call of a kernel, or None."""
    return next((m for match in _kernels if (m := match(kernel)) is not None), None)


def find_extern_mapping(name: str) -> Mapped | None:
    """Returns the function that writes a call of an external function or an op on functions, or
    None."""
    return _externs.get(name)
