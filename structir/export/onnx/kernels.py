"""Mappings of kernels, external functions and ops on functions that have an ONNX form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.kernel import Kernel
from structir.ir.registry import RegistrationTable

Mapped = Callable[[Any, Any], Any]  # exporter and call -> names of results

_kernels: list[Callable[[Kernel], Mapped | None]] = []
# of external functions, and of ops that take functions
exports_extern: RegistrationTable[str, Mapped] = RegistrationTable()


def exports_kernels(match: Callable[[Kernel], Mapped | None]) -> Callable[[Kernel], Mapped | None]:
    """Registers a function that returns the mapping of a kernel it knows, or None."""
    _kernels.append(match)
    return match


def find_kernel_mapping(kernel: Kernel) -> Mapped | None:
    """Returns the function that writes a call of a kernel, or None."""
    return next((m for match in _kernels if (m := match(kernel)) is not None), None)
