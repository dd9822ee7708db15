"""The CPU for which code is generated, and its features; the vector forms of the math functions and
the tiles of products depend on them.

It is this machine's CPU. NUMBA_CPU_NAME names another one, and NUMBA_CPU_FEATURES changes its
features.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numba.core import config

from structir.backend.cpu.named_cpu import UnknownCPUError, features_in_child
from structir.errors import Diagnostic, DiagnosticError

options: Any = config


@cache
def processor() -> tuple[str, str]:
    """Returns the name of the CPU, and the features in which it differs from others of its name.

    numba would take the features of this machine for a named CPU: its option is set to none.
    """
    name, features = options.CPU_NAME, options.CPU_FEATURES
    if name in (None, "", "host"):
        options.CPU_NAME = None
        host = llvm.get_host_cpu_features().flatten() if features is None else features
        return llvm.get_host_cpu_name(), str(host)
    options.CPU_FEATURES = features or ""
    return str(name), options.CPU_FEATURES


@cache
def cpu_features() -> frozenset[str]:
    """Returns the names of the features that the CPU has.

    Raises DiagnosticError if LLVM does not know the CPU that the environment names.
    """
    name, features = processor()
    if options.CPU_FEATURES is None:
        return frozenset(f[1:] for f in features.split(",") if f.startswith("+"))
    try:
        return features_in_child(name, features)
    except UnknownCPUError as error:
        message, hint = f"{error.variable}: {error.message}", error.hint
        raise DiagnosticError(Diagnostic(message, hint=hint)) from None


@cache
def has_wide_vectors() -> bool:
    """Whether there are 512-bit vectors; scaling by a power of two is one instruction then, and no
    library call."""
    return "avx512f" in cpu_features()


@cache
def has_fused() -> bool:
    """Whether a product and a sum that are rounded at once are one instruction; elsewhere they are
    a call that takes longer than a whole function does."""
    return "fma" in cpu_features() or not llvm.get_default_triple().startswith("x86")


@cache
def has_halves() -> bool:
    """Whether there are instructions that convert float16."""
    return "f16c" in cpu_features() or not llvm.get_default_triple().startswith("x86")


@cache
def is_amd() -> bool:
    """Whether the CPU is AMD's."""
    return processor()[0].startswith(("znver", "bdver", "btver"))


@cache
def gains_from_prefetching() -> bool:
    """Whether loops over much memory that compute much with each element are faster if they
    prefetch what they read: on Intel's processors they are, up to a fifth. AMD's find it by
    themselves, and are a tenth slower with the instructions."""
    return not is_amd()
