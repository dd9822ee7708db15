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
