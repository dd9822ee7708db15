"""What machine code depends on besides its text: versions, the processor, and our own sources."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config

from structir.backend.cpu.features import processor
from structir.lazy import lazy_module

structir = lazy_module("structir")

ROOM = Path(__file__).resolve().parent
SOURCES = (
    ROOM,
    ROOM.parent / "math",
    ROOM.parents[1] / "scalars",
)  # what kernels call by name is compiled into them

COMPILER_OPTIONS = ("CPU_NAME", "CPU_FEATURES", "OPT", "ENABLE_AVX", "LOOP_VECTORIZE")


@cache
def sources_digest() -> str:
    """A digest of the files whose functions kernels take in."""
    found = hashlib.sha256()
    for path in sorted(p for folder in SOURCES for p in folder.glob("*.py")):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@cache
def machine_identity() -> str:
    """All that must be the same for machine code to be used again."""
    features = llvm.get_host_cpu_features().flatten()
    named = processor()  # first: it sets options
    said = [getattr(config, name, None) for name in COMPILER_OPTIONS]
    versions = [structir.__version__, numba.__version__, llvmlite.__version__, np.__version__]
    parts = [*versions, sys.version, sys.platform, llvm.get_process_triple()]
    parts += [llvm.get_host_cpu_name(), features, *named, *said, sources_digest()]
    return "\n".join(map(str, parts))
