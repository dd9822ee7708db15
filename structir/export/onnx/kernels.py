"""Mappings of kernels that have an ONNX form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.kernel import Kernel

KernelMapping = Callable[[Any, Any], Any]


def find_kernel_mapping(kernel: Kernel) -> KernelMapping | None:
    """Returns the function that writes a call of a kernel, or None."""
    return None
