"""What the processor can do that code is made for, asked once; the vector forms of the math
functions and the tiles of products depend on it.

It is the one that we run on, unless NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name a plainer one. The
features are those of this machine where only the name is set: numba compiles kernels for these.
"""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm
from numba.core import config


@cache
def processor() -> tuple[str, str]:
    """The name of the processor and its features, as LLVM says them."""
    name, features = (getattr(config, f"CPU_{part}", None) for part in ("NAME", "FEATURES"))
    host = name in (None, "", "host")
    if features is None:
        features = llvm.get_host_cpu_features().flatten()
    return (llvm.get_host_cpu_name() if host else str(name)), str(features)


@cache
def cpu_features() -> frozenset[str]:
    """The names of the features that the processor has."""
    said = [feature.strip() for feature in processor()[1].split(",")]
    return frozenset(feature[1:] for feature in said if feature.startswith("+"))


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
def gains_from_prefetching() -> bool:
    """Whether loops over much memory that compute much with each element are faster if they
    prefetch what they read: on Intel's processors they are, up to a fifth. AMD's find it by
    themselves, and are a tenth slower with the instructions."""
    return not processor()[0].startswith(("znver", "bdver", "btver"))
