"""What this processor can do, asked once; the vector forms of the math functions depend on it."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm


@cache
def cpu_features() -> frozenset[str]:
    """The names of the features that the host processor has."""
    return frozenset(name for name, present in llvm.get_host_cpu_features().items() if present)


@cache
def has_vector_scale() -> bool:
    """Whether scaling by a power of two is one vector instruction, and no library call."""
    return "avx512f" in cpu_features()
